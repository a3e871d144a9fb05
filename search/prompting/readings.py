"""What authors may read by name, noted where it counts as retrieved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from kb.records.types import Answer, Hit, Passage, Query, Scope
from kb.retrieval.effect_estimate import Where
from kb.retrieval.effect_store import subject
from kb.retrieval.lookup import LookupResult
from kb.retrieval.multi_query import Inquiry


class Readings(Protocol):
    """Answers by name, as `kb.retrieval.lookup.RecordReader`."""

    def read(self, name: str) -> LookupResult:
        """Return a record whole, or the beginning of a plain document."""
        ...

    def module(
        self, name: str, scope: Scope | None = None, first: Sequence[str] = ()
    ) -> LookupResult:
        """Return a page of the index, what applies first."""
        ...

    def history(self, name: str, where: Where | None = None) -> LookupResult:
        """Return what an idea gained."""
        ...


_ANSWERS = 64  # questions whose passages are kept


class PassageRetriever(Protocol):
    """Finds passages."""

    def search(self, query: Query) -> list[Hit]:
        """Return the passages that answer `query`, the best first."""
        ...

    def inquire(self, inquiry: Inquiry) -> Answer:
        """Return the documents that several questions lead to, the best first."""
        ...


class RecordingRetriever:
    """A retriever that remembers which documents it returned, so that the record can say so.

    The branches of an idea ask the same question; what is known does not change within a run, so
    that it is looked up once.

    Args:
        hidden: documents whose passages are never returned.
    """

    def __init__(self, retriever: PassageRetriever, hidden: frozenset[str] = frozenset()) -> None:
        self._retriever = retriever
        self._hidden = hidden
        self._answers: dict[Query, list[Hit]] = {}
        self._inquiries: dict[Inquiry, Answer] = {}
        self._documents: dict[str, None] = {}
        self._subjects: dict[str, None] = {}

    def search(self, query: Query) -> list[Hit]:
        """Return what the retriever returns, without hidden documents."""
        found = self._answers.get(query)
        if found is None:
            found = self._answers[query] = self._retriever.search(query)
            if len(self._answers) > _ANSWERS:
                del self._answers[next(iter(self._answers))]
        return self._seen(found)

    def inquire(self, inquiry: Inquiry) -> Answer:
        """Return what the retriever returns, without hidden documents."""
        found = self._inquiries.get(inquiry)
        if found is None:
            # What is hidden must not be told on another document's page either.
            asked = replace(inquiry, hidden=self._hidden)
            found = self._inquiries[inquiry] = self._retriever.inquire(asked)
            if len(self._inquiries) > _ANSWERS:
                del self._inquiries[next(iter(self._inquiries))]
        return replace(found, hits=tuple(self._seen(found.hits)))

    def _seen(self, found: Sequence[Hit]) -> list[Hit]:
        hits = [hit for hit in found if hit.passage.document not in self._hidden]
        self.saw([hit.passage for hit in hits])
        return hits

    def saw(self, passages: Sequence[Passage]) -> None:
        """Remember passages as returned, as those that were read by name are."""
        self._documents.update(dict.fromkeys(one.document for one in passages))
        self._subjects.update(dict.fromkeys(map(subject, passages)))

    def clear(self) -> None:
        """Forget what was returned so far."""
        self._documents.clear()
        self._subjects.clear()

    def documents(self) -> tuple[str, ...]:
        """Return the documents returned since `clear`, in order of first appearance."""
        return tuple(self._documents)

    def subjects(self) -> tuple[str, ...]:
        """Return what the gains of the passages returned since `clear` are credited to."""
        return tuple(self._subjects)


class RecordingReadings:
    """Readings that tell a witness what was read whole: it counts as retrieved."""

    def __init__(self, readings: Readings, witness: RecordingRetriever) -> None:
        self._readings = readings
        self._witness = witness

    def read(self, name: str) -> LookupResult:
        """Return a record whole, or the beginning of a plain document."""
        found = self._readings.read(name)
        self._witness.saw(found.passages)
        return found

    def module(
        self, name: str, scope: Scope | None = None, first: Sequence[str] = ()
    ) -> LookupResult:
        """Return a page of the index: its lines only name records."""
        return self._readings.module(name, scope, first)

    def history(self, name: str, where: Where | None = None) -> LookupResult:
        """Return what an idea gained: its text is not among it."""
        return self._readings.history(name, where)
