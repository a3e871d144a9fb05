"""Beam: the best few of all attempts seed the next round, as in the published search."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from search.attempt import Attempt
from search.outcome import STANDING


class Beam:
    """Keeps the `width` fastest distinct attempts.

    Source: Ouyang, Mirhoseini, Liang, "Surprisingly fast AI-generated kernels" (Stanford CRFM,
    2025): the fastest implementations of a round seed the next one, beside a bank of good ones.
    """

    def __init__(self, width: int = 2) -> None:
        self._width = width

    def select(self, attempts: Sequence[Attempt], round: int, rng: Random) -> tuple[Attempt, ...]:  # noqa: ARG002 - the rank alone decides
        """Return the fastest attempts of every round so far, ties to the older."""
        ranked = sorted(
            (attempt for attempt in attempts if attempt.outcome.kind in STANDING),
            key=lambda attempt: (-attempt.merit, attempt.number),
        )
        distinct = {attempt.draft.source: attempt for attempt in reversed(ranked)}
        return tuple(attempt for attempt in ranked if distinct[attempt.draft.source] is attempt)[
            : self._width
        ]
