"""From candidates to hits: copies collapsed, a short document in one place, cut to size."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kb.records.types import Passage
    from kb.retrieval.filters import View
    from kb.retrieval.fusion import RankedRow

SAME_SHINGLES = 0.9  # of the smaller one's, from which on two passages say the same
SHINGLE = 4  # words
FEWEST = 8  # shingles below which two passages are the same only word for word
# Tokens up to which a document has one place before all others: whoever reads one passage of a record
# knows of the record, and a second one takes the place of another answer.
SHORT = 300
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A candidate that was chosen, with the reason, and what it stands for."""

    candidate: RankedRow
    passage: Passage
    reason: str
    copies: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A candidate that was not chosen, and why."""

    candidate: RankedRow
    passage: Passage
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultBudget:
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
    parts: Sequence[Sequence[RankedRow]],
    read: Callable[[Sequence[RankedRow]], Mapping[int, Passage]],
    room: ResultBudget,
) -> tuple[list[Kept], list[LeftOut]]:
    """Choose from the best down, leaving out what repeats and what does not fit.

    A short document has one place first; more of it follows only where places are left.

    Args:
        parts: candidates, best first; all of a part come before any of the next one.
        read: the passages of candidates by row; one that is gone is left out.
    """
    chosen = _Chosen(view, room)
    for found in parts:
        _in_order(chosen, found, read)
    order = {one.row: place for place, one in enumerate(one for part in parts for one in part)}
    kept = sorted(chosen.kept, key=lambda one: order[one.candidate.row])
    return kept, sorted(chosen.left_out, key=lambda one: order[one.candidate.row])


def _in_order(
    chosen: _Chosen,
    found: Sequence[RankedRow],
    read: Callable[[Sequence[RankedRow]], Mapping[int, Passage]],
) -> None:
    waiting: list[tuple[RankedRow, Passage]] = []
    taken: Counter[str] = Counter()
    for candidate, passage in _read(found, read, chosen.room.limit):
        if chosen.full:
            break
        document = passage.document
        if taken[document] and chosen.is_short(candidate):
            waiting.append((candidate, passage))
        elif chosen.offer(candidate, passage, f"{_ordinal(taken[document] + 1)} of {document}"):
            taken[document] += 1
    for candidate, passage in waiting:
        if chosen.full:
            chosen.drop(candidate, passage, "another passage of its short document came before it")
        else:
            chosen.offer(candidate, passage, "a place was left after every other document")


class _Chosen:
    """What was chosen so far."""

    def __init__(self, view: View, room: ResultBudget) -> None:
        self._view = view
        self.room = room
        self._left = math.inf if room.tokens is None else room.tokens
        self.kept: list[Kept] = []
        self.left_out: list[LeftOut] = []

    @property
    def full(self) -> bool:
        return len(self.kept) >= self.room.limit

    def is_short(self, candidate: RankedRow) -> bool:
        """Say whether a candidate's document is so short that it has one place."""
        return self._view.tokens(candidate.row) <= SHORT

    def offer(self, candidate: RankedRow, passage: Passage, reason: str) -> bool:
        """Take a candidate, unless it repeats another or does not fit."""
        same = self._same(passage)
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
        self.kept.append(Kept(candidate=candidate, passage=passage, reason=reason))
        return True

    def drop(self, candidate: RankedRow, passage: Passage, reason: str) -> None:
        """Note why a candidate was not taken."""
        self.left_out.append(LeftOut(candidate=candidate, passage=passage, reason=reason))

    def _same(self, passage: Passage) -> tuple[Kept, str] | None:
        for other in self.kept:
            shared = _overlap(passage.text, other.passage.text)
            if shared >= SAME_SHINGLES:
                return other, f"{shared:.0%} of its words"
        return None


def _overlap(one: str, two: str) -> float:
    """Return the share of the smaller text's shingles that the other has."""
    mine, theirs = _shingles(one), _shingles(two)
    smaller = min(len(mine), len(theirs))
    if smaller < FEWEST:
        return float(_WORD.findall(one.lower()) == _WORD.findall(two.lower()))
    return len(mine & theirs) / smaller


@lru_cache(maxsize=4096)
def _shingles(text: str) -> frozenset[tuple[str, ...]]:
    words = _WORD.findall(text.lower())
    return frozenset(zip(*(words[start:] for start in range(SHINGLE)), strict=False))


def _read(
    found: Sequence[RankedRow],
    read: Callable[[Sequence[RankedRow]], Mapping[int, Passage]],
    limit: int,
) -> Iterator[tuple[RankedRow, Passage]]:
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
