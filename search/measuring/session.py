"""Measures pairs of ideas and tasks, one task after the other, until all are done or time is up."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import date
from itertools import islice
from typing import Protocol

from kb.errors import TaskError, ToolchainError
from kb.records.schema import Evidence
from search.codegen.next_recipes import COMBINE
from search.judging.limits import Prepared
from search.measuring.choice import Pair, Shops, by_task
from search.measuring.evidence import evidence_of
from search.measuring.single_idea import Rendering, combined, renderings
from search.measuring.tables import Shape
from search.outcome import Outcome, Passed

_SECOND_CHANCES = 3  # settings that are tried before an idea is said to have failed
# A candidate is timed in so many sessions while its interval is wider than that: neighbours draw it
# out. One that stays beyond the last says nothing.
_SESSIONS, _WIDE, _WIDEST = 4, 1.25, 2.0


class TaskJudge(Protocol):
    """Judges candidates for one task."""

    def prepare(self) -> Prepared:
        """Do what is done before the first candidate."""
        ...

    def judge(self, source: str) -> Outcome:
        """Judge one candidate."""
        ...


class JudgeFactory(Protocol):
    """Where tasks are judged."""

    def open(self, shape: Shape) -> AbstractContextManager[TaskJudge]:
        """Start a judge for a task."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What came of one pair; no evidence where the judge could not say."""

    pair: Pair
    evidence: Evidence | None
    trouble: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureLimits:
    """What is measured how.

    Attributes:
        settings: of the knobs that are tried for a pair, the defaults included.
        target: name of the device.
        at: the day.
    """

    settings: int
    target: str
    at: date


class Measurement:
    """One round of measurements.

    Args:
        bench: starts judges.
        clock: seconds, from any beginning.
        until: when to stop, by `clock`: what would probably take longer is not begun.
    """

    def __init__(
        self,
        bench: JudgeFactory,
        shops: Shops,
        terms: MeasureLimits,
        clock: Callable[[], float],
        until: float | None = None,
    ) -> None:
        self._bench = bench
        self._shops = shops
        self._terms = terms
        self._clock = clock
        self._until = until
        self._longest = {"preparation": 0.0, "pair": 0.0}
        self.stopped = False

    def run(self, pairs: Iterable[Pair]) -> Iterator[Measured]:
        """Yield what comes of each pair; `stopped` says whether time was up before the last."""
        for group in by_task(pairs).values():
            if not self._has_time("preparation"):
                return
            try:
                yield from self._task(group)
            except (TaskError, ToolchainError) as error:
                # A task that cannot be judged here says nothing of the others.
                yield from (
                    Measured(pair=pair, evidence=None, trouble=str(error)) for pair in group
                )

    def _task(self, group: list[Pair]) -> Iterator[Measured]:
        began = self._clock()
        with self._bench.open(group[0].shape) as judge:
            prepared = judge.prepare()
            self._took("preparation", began)
            while group and self._has_time("pair"):
                began = self._clock()
                try:
                    evidence, trouble = self._pair(judge, prepared, group[0])
                except ToolchainError as error:  # something else disturbed it, perhaps
                    evidence, trouble = None, str(error)
                self._took("pair", began)
                pair = group.pop(0)
                seconds = self._clock() - began
                yield Measured(pair=pair, evidence=evidence, trouble=trouble, seconds=seconds)

    def _pair(
        self, judge: TaskJudge, prepared: Prepared, pair: Pair
    ) -> tuple[Evidence | None, str]:
        tried = self._try(judge, pair)
        best = max(tried, key=lambda one: _merit(one[1]))
        told = _told(tried, best[0])
        if pair.card.pattern == COMBINE:
            best, told = self._combine(judge, pair, tried)
        outcome = best[1]
        if outcome.kind == "refused":
            return None, f"refused: {getattr(outcome, 'reason', '')}"
        if isinstance(outcome, Passed) and _spread(outcome) > _WIDEST:
            eager = outcome.speedup["eager"]
            return None, (
                f"{eager.low:.2f} to {eager.high:.2f} times as fast as eager in the best of {_SESSIONS} sessions: "
                "something else keeps the machine busy"
            )
        evidence = evidence_of(
            outcome,
            task=pair.shape.name,
            target=self._terms.target,
            eager_seconds=prepared.baselines["eager"],
            at=self._terms.at,
            told=told,
        )
        return evidence, ""

    def _try(self, judge: TaskJudge, pair: Pair) -> list[tuple[Rendering, Outcome]]:
        """Judge the defaults and some more settings; more where none of them was right."""
        shop = self._shops.shop(pair.shape)
        every = pair.card.pattern == COMBINE
        tried: list[tuple[Rendering, Outcome]] = []
        for one in islice(renderings(shop, pair.card), None if every else _SECOND_CHANCES + 8):
            passed = any(isinstance(outcome, Passed) for _, outcome in tried)
            enough = max(self._terms.settings, 1 if passed else _SECOND_CHANCES)
            if len(tried) >= enough and not every:
                break
            tried.append((one, _judged(judge, one.source)))
        return tried

    def _combine(
        self, judge: TaskJudge, pair: Pair, tried: Sequence[tuple[Rendering, Outcome]]
    ) -> tuple[tuple[Rendering, Outcome], str]:
        merits = [(one, _merit(outcome)) for one, outcome in tried]
        merged = combined(self._shops.shop(pair.shape), merits)
        gains = ", ".join(_gain(outcome) for _, outcome in tried)
        if merged is None:
            return tried[0], f"{len(tried)} programs that differ in one part each"
        known = [pair for pair in tried if pair[0].source == merged.source]
        found = known[0] if known else (merged, _judged(judge, merged.source))
        return found, f"{merged.chosen}; before they were put together {gains} over eager"

    def _has_time(self, what: str) -> bool:
        if self._until is None or self._clock() + self._longest[what] < self._until:
            return True
        self.stopped = True
        return False

    def _took(self, what: str, began: float) -> None:
        self._longest[what] = max(self._longest[what], self._clock() - began)


def _judged(judge: TaskJudge, source: str) -> Outcome:
    """Judge a candidate, again where neighbours drew its interval out; the narrowest counts."""
    found = judge.judge(source)
    for _ in range(_SESSIONS - 1):
        if _spread(found) <= _WIDE:
            break
        found = min(found, judge.judge(source), key=_spread)
    return found


def _spread(outcome: Outcome) -> float:
    """Return how wide its interval is; what failed for its own reasons is as sure as can be."""
    if not isinstance(outcome, Passed):
        return math.inf if outcome.kind == "timed_out" else 1.0
    eager = outcome.speedup["eager"]
    return eager.high / eager.low


def _merit(outcome: Outcome) -> float:
    return outcome.merit if isinstance(outcome, Passed) else 0.0


def _gain(outcome: Outcome) -> str:
    if not isinstance(outcome, Passed):
        return outcome.kind.replace("_", " ")
    return f"{outcome.speedup['eager'].ratio:.2f}x"


def _told(tried: Sequence[tuple[Rendering, Outcome]], best: Rendering) -> str:
    """Return what was tried in a few words."""
    several = f", the best of {len(tried)} settings" if len(tried) > 1 else ""
    return f"{best.chosen}{several}"
