"""Beam: the best few of all attempts seed the next round, as in the published search."""

from __future__ import annotations

from bisect import insort
from random import Random

from search.attempt import Attempt
from search.outcome import STANDING
from search.standings import Standings


class Beam:
    """Keeps the `width` fastest distinct attempts.

    Source: Ouyang, Mirhoseini, Liang, "Surprisingly fast AI-generated kernels" (Stanford CRFM,
    2025): the fastest implementations of a round seed the next one, beside a bank of good ones.
    """

    def __init__(self, width: int = 2) -> None:
        self._width = width

    def select(self, standings: Standings, round: int, rng: Random) -> tuple[Attempt, ...]:  # noqa: ARG002 - the rank alone decides
        """Return the fastest attempts of every round so far, ties to the older."""
        return tuple(standings.index(Fastest, self._width).attempts)


class Fastest:
    """The fastest few attempts with distinct sources, ties to the older.

    Attributes:
        attempts: the best first.
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self.attempts: list[Attempt] = []

    def proposed(self, parent: int | None, round: int) -> None:
        """Do nothing: what was asked for has no rank."""

    def judged(self, attempt: Attempt) -> None:
        """Take in an attempt that is among the fastest."""
        if attempt.outcome.kind not in STANDING:
            return
        for place, known in enumerate(self.attempts):
            if known.draft.source == attempt.draft.source:
                if known.merit >= attempt.merit:
                    return
                del self.attempts[place]
                break
        insort(self.attempts, attempt, key=lambda one: -one.merit)
        del self.attempts[self._width :]
