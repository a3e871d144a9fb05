"""The titles of what the library holds for a task, beside the few records that a prompt quotes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Protocol

from kb.records.schema import Document, GuideRecord, IdeaRecord, TargetRecord
from kb.records.types import Hit, MenuEntry
from kb.retrieval.multi_query import Inquiry

KINDS = ("idea", "kernel")
TITLES = 24  # that are told at most: some twenty-five tokens each


class Shelf(Protocol):
    """Holds records."""

    def documents(self, kind: str) -> list[Document]:
        """Return every record of a kind, by name."""
        ...


class Menu:
    """Lists the records in scope, those nearest to an inquiry first."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._documents: tuple[Document, ...] | None = None
        self._kinds: dict[str, frozenset[str]] = {}

    def entries(
        self, inquiry: Inquiry, near: Sequence[str], quoted: Iterable[Hit]
    ) -> tuple[MenuEntry, ...]:
        """Return titles with what each gained, without what is quoted whole.

        Args:
            near: documents that the questions led to as well, the nearest first.
        """
        shown = {hit.passage.document for hit in quoted}
        place = {document: at for at, document in enumerate(near)}
        families = set(inquiry.families)
        found = [
            one
            for one in self._all()
            if one.path not in shown and one.record.scope.value().admits(inquiry.scope)
        ]
        inside = [one for one in found if _concerns(one, families)]
        inside.sort(key=lambda one: (place.get(one.path, len(place)), one.name))
        targets = self._targets(inquiry.menu)
        return tuple(
            MenuEntry(name=one.name, title=one.record.title, gained=gained(one, targets))
            for one in inside[:TITLES]
        )

    def _targets(self, device: str) -> frozenset[str]:
        """Return the names of the targets of one kind."""
        if device not in self._kinds:
            self._kinds[device] = frozenset(
                one.record.name
                for one in self._shelf.documents("target")
                if isinstance(one.record, TargetRecord) and one.record.device == device
            )
        return self._kinds[device]

    def _all(self) -> tuple[Document, ...]:
        if self._documents is None:
            self._documents = tuple(one for kind in KINDS for one in self._shelf.documents(kind))
        return self._documents


def _concerns(document: Document, families: set[str]) -> bool:
    own = set(document.record.scope.operator)
    return not own or not families or bool(own & families)


def gained(document: Document, targets: frozenset[str]) -> str:
    """Return in a few words what a record's measurements on some targets came to, "" for none."""
    record = document.record
    if not isinstance(record, IdeaRecord | GuideRecord):
        return ""
    if isinstance(record, IdeaRecord) and record.anti:
        return "usually loses"
    evidence = [one for one in record.evidence if one.target in targets]
    gains = [one.gain for one in evidence if one.gain is not None]
    if not gains:
        return "failed" if evidence else ""
    if len(gains) == 1:
        return f"{gains[0]:.2f}x"
    return f"{median(gains):.2f}x, median of {len(gains)}"
