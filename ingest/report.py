"""What became of the documents that were asked for."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from kb.store.diff import DocumentChange

_LISTED = ("added", "changed", "removed", "skipped", "refused")


@dataclass(kw_only=True)
class Report:
    """What became of each document, by the name that quotations use; it grows while they are read.

    Attributes:
        skipped: not changed since they were read.
        refused: with the reason.
        unread: those of the refused that were asked for by their own path or pattern.
        passages: of the documents that were added or changed.
    """

    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    passages: dict[str, DocumentChange] = field(default_factory=dict)

    def line(self) -> str:
        """Return the counts in one line."""
        return ", ".join(f"{len(getattr(self, what))} {what}" for what in _LISTED)

    def lines(self) -> list[str]:
        """Return a line for each document that was read, and for each that was refused."""
        read = [f"{name}: {change.line()}" for name, change in self.passages.items()]
        return [*read, *(f"refused {name}: {reason}" for name, reason in self.refused)]

    def total(self) -> DocumentChange:
        """Return what became of all passages."""
        return sum(self.passages.values(), start=DocumentChange())

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; a refused document is an object with its reason."""
        plain = asdict(self)
        plain["refused"] = [{"document": name, "reason": why} for name, why in self.refused]
        return plain
