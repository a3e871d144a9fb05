"""From candidates to hits: copies collapsed, no document takes every place, cut to size."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kb.indexes import Vector
    from kb.retrieve_fuse import Candidate
    from kb.retrieve_view import View
    from kb.types import Passage

SAME_COSINE = 0.97  # two passages this close say the same
SAME_SHINGLES = 0.9  # of the smaller one's, from which on two passages say the same
SHINGLE = 4  # words
FEWEST = 8  # shingles below which words alone say nothing
PER_SECTION = 0.3  # of the places: for one document, or chapter of a long one, before others' turn
SECTION_DEPTH = 2  # headings of a breadcrumb that make a section, the document's title included
LONG = 40  # passages from which on a document is taken as its sections
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A candidate that was chosen, with the reason, and what it stands for."""

    candidate: Candidate
    passage: Passage
    reason: str
    copies: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A candidate that was not chosen, and why."""

    candidate: Candidate
    passage: Passage
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """How much may be chosen.

    Attributes:
        tokens: of all passages together; None without limit.
        count: tokens of a passage.
    """

    limit: int
    tokens: int | None
    count: Callable[[Passage], int]


def choose(
    view: View,
    parts: Sequence[Sequence[Candidate]],
    read: Callable[[Sequence[Candidate]], Mapping[int, Passage]],
    room: Room,
) -> tuple[list[Kept], list[LeftOut]]:
    """Choose from the best down, leaving out what repeats and what does not fit.

    A document fills a part of the places first; more of it follows only where places are left.

    Args:
        parts: candidates, best first; all of a part come before any of the next one.
        read: the passages of candidates by row; one that is gone is left out.
    """
    chosen = _Chosen(view, room)
    for found in parts:
        _in_turns(chosen, found, read)
    order = {one.row: place for place, one in enumerate(one for part in parts for one in part)}
    kept = sorted(chosen.kept, key=lambda one: order[one.candidate.row])
    return kept, sorted(chosen.left_out, key=lambda one: order[one.candidate.row])


def _in_turns(
    chosen: _Chosen,
    found: Sequence[Candidate],
    read: Callable[[Sequence[Candidate]], Mapping[int, Passage]],
) -> None:
    waiting: list[tuple[Candidate, Passage]] = []
    most = max(2, math.ceil(PER_SECTION * chosen.room.limit))
    taken: dict[str, int] = {}
    for candidate, passage in _read(found, read, chosen.room.limit):
        if chosen.full:
            break
        unit = chosen.unit(candidate, passage)
        if taken.get(unit, 0) >= most:
            waiting.append((candidate, passage))
            continue
        place = taken.get(unit, 0) + 1
        if chosen.offer(candidate, passage, f"{_ordinal(place)} of {unit}"):
            taken[unit] = place
    for candidate, passage in waiting:
        if chosen.full:
            chosen.drop(candidate, passage, f"{most} of its section came before it")
        else:
            chosen.offer(candidate, passage, "a place was left after every other section's turn")


class _Chosen:
    """What was chosen so far."""

    def __init__(self, view: View, room: Room) -> None:
        self._view = view
        self.room = room
        self._left = math.inf if room.tokens is None else room.tokens
        self._vectors: list[Vector] = []
        self.kept: list[Kept] = []
        self.left_out: list[LeftOut] = []

    @property
    def full(self) -> bool:
        return len(self.kept) >= self.room.limit

    def unit(self, candidate: Candidate, passage: Passage) -> str:
        """Return what takes turns: a document, or a section of one that is long."""
        if self._view.size(candidate.row) < LONG:
            return passage.document
        return f"{passage.document}: {' > '.join(passage.section.split(' > ')[:SECTION_DEPTH])}"

    def offer(self, candidate: Candidate, passage: Passage, reason: str) -> bool:
        """Take a candidate, unless it repeats another or does not fit."""
        same = self._same(candidate, passage)
        if same is not None:
            other, how = same
            other.copies.append(f"{passage.document}: {passage.section} ({how})")
            self.drop(candidate, passage, f"says the same as {other.passage.document} ({how})")
            return False
        cost = self.room.count(passage) if self.room.tokens is not None else 0
        if cost > self._left:
            self.drop(candidate, passage, f"{cost} tokens, {self._left:.0f} are left")
            return False
        self._left -= cost
        self._vectors.append(self._view.index.vectors[candidate.row])
        self.kept.append(Kept(candidate=candidate, passage=passage, reason=reason))
        return True

    def drop(self, candidate: Candidate, passage: Passage, reason: str) -> None:
        """Note why a candidate was not taken."""
        self.left_out.append(LeftOut(candidate=candidate, passage=passage, reason=reason))

    def _same(self, candidate: Candidate, passage: Passage) -> tuple[Kept, str] | None:
        mine = self._view.index.vectors[candidate.row]
        for other, vector in zip(self.kept, self._vectors, strict=True):
            cosine = float(mine @ vector)
            if cosine >= SAME_COSINE:
                return other, f"cosine {cosine:.2f}"
            shared = _overlap(passage.text, other.passage.text)
            if shared >= SAME_SHINGLES:
                return other, f"{shared:.0%} of its words"
        return None


def _overlap(one: str, two: str) -> float:
    """Return the share of the smaller text's shingles that the other has."""
    mine, theirs = _shingles(one), _shingles(two)
    smaller = min(len(mine), len(theirs))
    return len(mine & theirs) / smaller if smaller >= FEWEST else 0.0


@lru_cache(maxsize=4096)
def _shingles(text: str) -> frozenset[tuple[str, ...]]:
    words = _WORD.findall(text.lower())
    return frozenset(zip(*(words[start:] for start in range(SHINGLE)), strict=False))


def _read(
    found: Sequence[Candidate],
    read: Callable[[Sequence[Candidate]], Mapping[int, Passage]],
    limit: int,
) -> Iterator[tuple[Candidate, Passage]]:
    """Yield candidates with their passages, reading no more of them than are asked for."""
    step = limit + limit // 2 + 4
    for start in range(0, len(found), step):
        part = found[start : start + step]
        passages = read(part)
        for one in part:
            passage = passages.get(one.row)
            if passage is not None:
                yield one, passage


def _ordinal(place: int) -> str:
    return {1: "first", 2: "second"}.get(place, f"number {place}")
