"""MAP-Elites: the best of each kind of program, kinds told apart by what programs do."""

from __future__ import annotations

import math
from random import Random

from search.attempt import Attempt
from search.languages.written import written_in
from search.outcome import STANDING, Checked, Passed
from search.standings import Standings

Cell = tuple[str, str, int]
_WAITS, _STARVED = 0.3, 0.25  # share of gaps between kernels; occupancy


class Elites:
    """Draws parents from a map that keeps the best attempt of each cell.

    A cell is a bottleneck, a language and a level of memory traffic. A round's first parent is the best
    elite, the others are drawn from the other cells with equal chances: a program that is slower than
    the best and unlike it can be built upon.

    Source: Mouret, Clune, "Illuminating search spaces by mapping elites" (arXiv 1504.04909), where every
    parent is drawn with equal chances; the first one is not here, for budgets of a hundred candidates.
    """

    def __init__(self, width: int = 2) -> None:
        self._width = width

    def select(self, standings: Standings, round: int, rng: Random) -> tuple[Attempt, ...]:  # noqa: ARG002 - every round is alike
        """Return the best elite and one or more of other cells, the best first."""
        elites = list(standings.index(BehaviourMap).cells.values())
        if not elites:
            return ()
        best = max(elites, key=lambda attempt: attempt.merit)
        others = [attempt for attempt in elites if attempt is not best]
        drawn = rng.sample(others, min(self._width - 1, len(others)))
        return (best, *sorted(drawn, key=lambda attempt: -attempt.merit))


class BehaviourMap:
    """The best standing attempt of each cell, ties to the older."""

    def __init__(self) -> None:
        self.cells: dict[Cell, Attempt] = {}

    def proposed(self, parent: int | None, round: int) -> None:
        """Do nothing: what was asked for has no behaviour."""

    def judged(self, attempt: Attempt) -> None:
        """Take in an attempt that is the best of its cell."""
        if attempt.outcome.kind not in STANDING:
            return
        cell = cell_of(attempt)
        known = self.cells.get(cell)
        if known is None or attempt.merit > known.merit:
            self.cells[cell] = attempt


def cell_of(attempt: Attempt) -> Cell:
    """Return the bottleneck, the language and the level of memory traffic of a standing attempt."""
    languages = written_in(attempt.draft.source)
    return _bottleneck(attempt), "+".join(languages) or "framework", _traffic(attempt)


def _bottleneck(attempt: Attempt) -> str:
    """Return what holds a program back; where nothing was counted, what its idea is aimed at."""
    outcome = attempt.outcome
    if isinstance(outcome, Checked):
        spills = any(kernel.spills or kernel.stack for kernel in outcome.kernels)
        return "registers" if spills else attempt.idea.category
    assert isinstance(outcome, Passed)
    told = outcome.profile
    if told.get("gap_share", 0.0) > _WAITS:
        return "launches"
    if told.get("spill_bytes", 0.0) > 0:
        return "registers"
    if 0 < told.get("occupancy", 1.0) < _STARVED:
        return "occupancy"
    return attempt.idea.category


def _traffic(attempt: Attempt) -> int:
    """Return how much goes through memory, in doublings; 0 where nothing tells it.

    By the bytes that the hardware counted over the least there could be, else by the memory that a
    call takes beside its reference's, else by the launches of a call, each of which reads and writes.
    """
    outcome = attempt.outcome
    if isinstance(outcome, Checked):
        return _doublings(sum(kernel.launches for kernel in outcome.kernels))
    assert isinstance(outcome, Passed)
    told = outcome.profile
    if "ncu_dram_bytes" in told and told.get("bytes"):
        return _doublings(told["ncu_dram_bytes"] / told["bytes"])
    if told.get("reference_peak_bytes") and "peak_bytes" in told:
        return _doublings(told["peak_bytes"] / told["reference_peak_bytes"])
    return _doublings(told.get("launches", 0.0))


def _doublings(times: float) -> int:
    return max(-4, min(8, round(math.log2(times)))) if times > 0 else 0
