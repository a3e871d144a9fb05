"""The trials of a finished run: each candidate against what it started from, with an interval."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from search.attempt import Attempt
from search.graph import Graph
from search.lessons.changes import Change, change
from search.outcome import Outcome, Passed, Ratio

Fate = Literal["won", "lost", "failed", "even"]
DRAW = 1.25  # width of an interval, high over low, within which a draw is a finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A candidate against what it started from.

    Attributes:
        parent: the nearest ancestor that passed, None for the reference.
        seconds: of one call: of what it started from, and its own, None where it failed.
        gain: of its speed over that of what it started from; None where it failed.
    """

    attempt: Attempt
    parent: Attempt | None
    change: Change
    before: float
    after: float | None
    gain: Ratio | None
    outcome: Outcome

    @property
    def fate(self) -> Fate:
        """Say whether it was clearly faster or slower; `even` where the interval holds 1."""
        if self.gain is None:
            return "failed"
        if self.gain.low > 1:
            return "won"
        return "lost" if self.gain.high < 1 else "even"

    @property
    def vague(self) -> bool:
        """Say whether its interval is too wide to tell even a draw: that teaches nothing."""
        return (
            self.fate == "even" and self.gain is not None and self.gain.high > DRAW * self.gain.low
        )


def trials(graph: Graph, confirmed: Mapping[int, Outcome], eager_seconds: float) -> Iterator[Trial]:
    """Yield one trial a judged candidate, oldest first; a measurement made again replaces the first."""
    for attempt in graph.attempts():
        outcome = confirmed.get(attempt.number, attempt.outcome)
        parent = _ancestor(graph, attempt)
        base = None if parent is None else confirmed.get(parent.number, parent.outcome)
        if not isinstance(base, Passed):
            parent = base = None  # it failed when it was measured again: the reference stands in
        before = eager_seconds if base is None else base.seconds
        gain = after = None
        if isinstance(outcome, Passed):
            gain = _over(outcome.speedup["eager"], base)
            # Measured beside the same baseline, ratios hold where clocks drift between candidates.
            after = before / gain.ratio
        yield Trial(
            attempt=attempt,
            parent=parent,
            change=change(parent, attempt),
            before=before,
            after=after,
            gain=gain,
            outcome=outcome,
        )


def _over(mine: Ratio, base: Passed | None) -> Ratio:
    """Return the speed-up over `base`, each measured against eager; its interval is the widest."""
    if base is None:
        return mine
    theirs = base.speedup["eager"]
    return Ratio(
        ratio=mine.ratio / theirs.ratio,
        low=mine.low / theirs.high,
        high=mine.high / theirs.low,
        confidence=mine.confidence,
    )


def _ancestor(graph: Graph, attempt: Attempt) -> Attempt | None:
    """Return what `attempt` started from: a mended one started where the failed one did."""
    number = attempt.parent
    while number is not None:
        node = graph.nodes[number]
        if isinstance(node.outcome, Passed):
            return node.attempt()
        number = node.parent
    return None
