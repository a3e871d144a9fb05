"""What the search draws on: the knowledge that an author may ask, and what it was given."""

from __future__ import annotations

from typing import Protocol

from kb.records import Document
from kb.types import Hit, Query


class Retriever(Protocol):
    """Finds passages."""

    def search(self, query: Query) -> list[Hit]:
        """Return the passages that answer `query`, the best first."""
        ...


class Records(Protocol):
    """Holds the records that passages come from."""

    def document(self, kind: str, name: str) -> Document | None:
        """Return one record."""
        ...

    def documents(self, kind: str) -> list[Document]:
        """Return every record of a kind, by name."""
        ...


class Witness:
    """A retriever that remembers which documents it returned, so that the record can say so."""

    def __init__(self, retriever: Retriever) -> None:
        self._retriever = retriever
        self._documents: dict[str, None] = {}

    def search(self, query: Query) -> list[Hit]:
        """Return what the retriever returns."""
        hits = self._retriever.search(query)
        self._documents.update(dict.fromkeys(hit.passage.document for hit in hits))
        return hits

    def clear(self) -> None:
        """Forget what was returned so far."""
        self._documents.clear()

    def documents(self) -> tuple[str, ...]:
        """Return the documents returned since `clear`, in order of first appearance."""
        return tuple(self._documents)


class Memory:
    """The knowledge that authors see: passages through a witness, records as they are."""

    def __init__(self, retriever: Witness, store: Records) -> None:
        self.retriever = retriever
        self.store = store
