"""What the search draws on: the knowledge that an author may ask, and what it was given."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from kb.records.patterns import Pattern, load_patterns
from kb.records.schema import Document
from kb.records.types import Answer, Hit, Query
from kb.retrieval.multi_query import Inquiry
from search.prompting.readings import RecordingRetriever

if TYPE_CHECKING:
    from search.prompting.novelty import NoveltyCheck
    from search.prompting.readings import RecordingReadings


class Silent:
    """A retriever that finds nothing, for a run without retrieval."""

    def search(self, query: Query) -> list[Hit]:  # noqa: ARG002
        """Return nothing."""
        return []

    def inquire(self, inquiry: Inquiry) -> Answer:  # noqa: ARG002
        """Return nothing."""
        return Answer(hits=())


class RecordSource(Protocol):
    """Holds the records that passages come from."""

    def document(self, kind: str, name: str) -> Document | None:
        """Return one record."""
        ...

    def documents(self, kind: str) -> list[Document]:
        """Return every record of a kind, by name."""
        ...


class TrustedRecords:
    """Records without the lessons that nothing in the record of runs supports.

    Args:
        believes: says whether a record may be acted on, see `search.lessons.evidence`.
    """

    def __init__(self, store: RecordSource, believes: Callable[[Document], bool]) -> None:
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


class KnowledgeView:
    """The knowledge that authors see: passages through a witness, records as they are.

    Args:
        known: what was tried before; None where nothing is to be refused but equal words.
        readings: records and pages by name; None where nothing is read, as without retrieval.
        patterns: loads what tasks are searched for; the shipped ones by default.
    """

    def __init__(
        self,
        retriever: RecordingRetriever,
        store: RecordSource,
        known: NoveltyCheck | None = None,
        readings: RecordingReadings | None = None,
        patterns: Callable[[], tuple[Pattern, ...]] = load_patterns,
    ) -> None:
        self.retriever = retriever
        self.store = store
        self.known = known
        self.readings = readings
        self.patterns = patterns
