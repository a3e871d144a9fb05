"""What people noted, the last first."""

from __future__ import annotations

from dataclasses import dataclass

from kb.web.notes import Annotation, latest
from kb.web.sources import Sources
from kb.web.text import address


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteLine:
    """A note with the address of what it is about: parts of a page's address."""

    note: Annotation
    place: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Notes:
    """The latest notes."""

    rows: tuple[NoteLine, ...]


def notes(sources: Sources) -> Notes:
    """Return the latest notes of the home."""
    return Notes(
        rows=tuple(NoteLine(note=one, place=_place(one)) for one in latest(sources.reader))
    )


def _place(one: Annotation) -> tuple[str, ...]:
    if one.lesson:
        return ("lessons", address(one.lesson))
    return ("runs", address(one.run), "nodes", str(one.node))
