"""The titles of what the library holds for a task beside the few quoted records, and what was measured of these."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Protocol

from kb.records.schema import Document, Evidence, GuideRecord, IdeaRecord, TargetRecord
from kb.records.types import Hit, MenuEntry
from kb.retrieval.multi_query import Inquiry

KINDS = ("idea", "kernel")
TITLES = 24  # that are told at most: some twenty-five tokens each
MOST, LEAST = 3, 2  # measurements that are told beside a quoted record, the best and the worst


class Shelf(Protocol):
    """Holds records."""

    def documents(self, kind: str) -> list[Document]:
        """Return every record of a kind, by name."""
        ...


class Menu:
    """Lists the records in scope, those nearest to an inquiry first, and says what was measured of them."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._documents: tuple[Document, ...] | None = None
        self._known: tuple[TargetRecord, ...] | None = None
        self._measured: dict[str, tuple[Evidence, ...]] | None = None

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
        targets = self._targets(inquiry.device)
        return tuple(
            MenuEntry(name=one.name, title=one.record.title, gained=gained(one, targets))
            for one in inside[:TITLES]
        )

    def measured(self, document: str, inquiry: Inquiry, *, whole: bool = True) -> str:
        """Return what was measured of a record on the device, or on others of its kind, in a line; "" for nothing.

        Args:
            whole: with the sizes, else the range alone.
        """
        evidence = self._evidence().get(document, ())
        kind = self._targets(inquiry.device)
        for targets in ({inquiry.target}, kind & self._alike(inquiry.scope.architecture), kind):
            known = [one for one in evidence if one.target in targets]
            if known:
                ((target, _),) = Counter(one.target for one in known).most_common(1)
                line = evidence_line if whole else range_line
                return line(target, [one for one in known if one.target == target])
        return ""

    def _evidence(self) -> dict[str, tuple[Evidence, ...]]:
        if self._measured is None:
            self._measured = {
                one.path: one.record.evidence
                for one in self._all()
                if isinstance(one.record, IdeaRecord) and one.record.evidence
            }
        return self._measured

    def _alike(self, architectures: Sequence[str]) -> frozenset[str]:
        """Return the names of the targets of some architectures."""
        return frozenset(one.name for one in self._records() if one.architecture in architectures)

    def _targets(self, device: str) -> frozenset[str]:
        """Return the names of the targets of one kind."""
        return frozenset(one.name for one in self._records() if one.device == device)

    def _records(self) -> tuple[TargetRecord, ...]:
        if self._known is None:
            listed = (one.record for one in self._shelf.documents("target"))
            self._known = tuple(one for one in listed if isinstance(one, TargetRecord))
        return self._known

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


def evidence_line(target: str, evidence: Sequence[Evidence]) -> str:
    """Return the most and the least that one target gained, with the sizes: the regime decides."""
    known = sorted(
        ((one.gain, one) for one in evidence if one.gain is not None), key=lambda one: -one[0]
    )
    best, rest = known[:MOST], known[MOST:]
    worst = rest[max(0, len(rest) - LEAST) :]
    parts = [_told(gain, one) for gain, one in (*best, *worst)]
    if between := len(rest) - len(worst):
        parts.insert(len(best), f"{between} more in between")
    parts += [f"{one.task} failed" for one in evidence if one.gain is None][:LEAST]
    return f"Measured on {target}, times the speed of eager: {'; '.join(parts)}."


def range_line(target: str, evidence: Sequence[Evidence]) -> str:
    """Return the least and the most that one target gained."""
    gains = [one.gain for one in evidence if one.gain is not None]
    if not gains:
        return f"Measured on {target}: failed."
    return f"Measured on {target}: {min(gains):.2f} to {max(gains):.2f} times the speed of eager ({len(gains)})."


def _told(gain: float, one: Evidence) -> str:
    beside = f" ({one.over_compile:.2f} of torch.compile)" if one.over_compile is not None else ""
    return f"{one.task} {gain:.2f}{beside}"
