"""What the search draws on: the knowledge that an author may ask, and what it was given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from kb.records.schema import Document
from kb.records.types import Answer, Hit, Passage, Query
from kb.retrieval.effect_store import subject
from kb.retrieval.multi_query import Inquiry

if TYPE_CHECKING:
    from search.prompting.novelty import Known
    from search.prompting.readings import Witnessed


_ANSWERS = 64  # questions whose passages are kept


class Retriever(Protocol):
    """Finds passages."""

    def search(self, query: Query) -> list[Hit]:
        """Return the passages that answer `query`, the best first."""
        ...

    def inquire(self, inquiry: Inquiry) -> Answer:
        """Return the documents that several questions lead to, the best first."""
        ...


class Silent:
    """A retriever that finds nothing, for a run without retrieval."""

    def search(self, query: Query) -> list[Hit]:  # noqa: ARG002
        """Return nothing."""
        return []

    def inquire(self, inquiry: Inquiry) -> Answer:  # noqa: ARG002
        """Return nothing."""
        return Answer(hits=())


class Records(Protocol):
    """Holds the records that passages come from."""

    def document(self, kind: str, name: str) -> Document | None:
        """Return one record."""
        ...

    def documents(self, kind: str) -> list[Document]:
        """Return every record of a kind, by name."""
        ...


class Believed:
    """Records without the lessons that nothing in the record of runs supports.

    Args:
        believes: says whether a record may be acted on, see `search.lessons.evidence`.
    """

    def __init__(self, store: Records, believes: Callable[[Document], bool]) -> None:
        self._store = store
        self._believes = believes

    def document(self, kind: str, name: str) -> Document | None:
        """Return one record, None where it is a lesson that is not believed."""
        found = self._store.document(kind, name)
        return found if found is None or self._believes(found) else None

    def documents(self, kind: str) -> list[Document]:
        """Return every believed record of a kind, by name."""
        return [one for one in self._store.documents(kind) if self._believes(one)]

    def doubted(self) -> frozenset[str]:
        """Return the paths of the lessons that are not believed."""
        lessons = self._store.documents("lesson")
        return frozenset(one.path for one in lessons if not self._believes(one))


class Witness:
    """A retriever that remembers which documents it returned, so that the record can say so.

    The branches of an idea ask the same question; what is known does not change within a run, so
    that it is looked up once.

    Args:
        hidden: documents whose passages are never returned.
    """

    def __init__(self, retriever: Retriever, hidden: frozenset[str] = frozenset()) -> None:
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

    def ask_through(self, wrap: Callable[[Retriever], Retriever]) -> None:
        """Ask another retriever from now on: what `wrap` makes of the present one."""
        self._retriever = wrap(self._retriever)

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


class Memory:
    """The knowledge that authors see: passages through a witness, records as they are.

    Args:
        known: what was tried before; None where nothing is to be refused but equal words.
        readings: records and pages by name; None where nothing is read, as without retrieval.
    """

    def __init__(
        self,
        retriever: Witness,
        store: Records,
        known: Known | None = None,
        readings: Witnessed | None = None,
    ) -> None:
        self.retriever = retriever
        self.store = store
        self.known = known
        self.readings = readings
