"""Two nodes side by side, and two runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kb.web.sources import Sources
from kb.web.story import BASELINES, Brief, Story
from kb.web.trials import compare
from kb.web.views.node import DiffLine, NodeView, compare_texts, node
from kb.web.views.run import Cost, Point, costs, points
from search.outcome import Ratio

_STEPS = (
    1.1,
    1.25,
    1.5,
    2.0,
    3.0,
    5.0,
    7.5,
    10.0,
    15.0,
    20.0,
    30.0,
    50.0,
    75.0,
    100.0,
    200.0,
    500.0,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """Two nodes, of one run or of two.

    Attributes:
        gain: of the second's speed over the first's, each against its own baseline; None where one
            did not pass, or they are of different tasks or targets.
        lines: what differs from the first source to the second.
    """

    one: NodeView
    other: NodeView
    comparable: bool
    gain: Ratio | None
    fate: str
    lines: tuple[DiffLine, ...]
    calls: Mapping[str, tuple[float, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """When a run first reached a speed-up: the candidate, its place, and what it had cost by then."""

    number: int
    place: int
    second: float
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachedStep:
    """A speed-up over eager, and when each of two runs reached it."""

    ratio: float
    one: Reached | None
    other: Reached | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of two runs."""

    run: Brief
    points: tuple[Point, ...]
    costs: tuple[Cost, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPair:
    """Two runs.

    Attributes:
        same: they are of one task on one target.
        verdicts: by baseline, what the second's best is beside the first's, by their intervals.
    """

    one: Side
    other: Side
    same: bool
    steps: tuple[ReachedStep, ...]
    verdicts: Mapping[str, str]


def compare_nodes(sources: Sources, at: Mapping[str, str]) -> Nodes:
    """Return two nodes beside each other.

    Args:
        at: run, node, other (run) and second (node), as addresses have them.

    Raises:
        StoreError: there is no such run or node.
    """
    one = node(sources, at["run"], at["node"])
    other = node(sources, at["other"], at["second"])
    comparable = (one.run.task, one.run.target) == (other.run.task, other.run.target)
    mine, theirs = other.one.ratio(), one.one.ratio()
    fate, gain = compare(mine, theirs) if comparable and mine and theirs else ("", None)
    calls = {}
    for name, each in (("first", one), ("second", other)):
        if each.measures is not None and "candidate" in each.measures.calls:
            calls[name] = each.measures.calls["candidate"]
    return Nodes(
        one=one,
        other=other,
        comparable=comparable,
        gain=gain,
        fate=fate if gain is not None else "",
        lines=compare_texts(one.source, other.source),
        calls=calls,
    )


def compare_runs(sources: Sources, run: str, other: str) -> RunPair:
    """Return two runs beside each other, by their addresses.

    Raises:
        StoreError: there is no such run.
    """
    sides = [_side(sources, sources.stories.find(address)) for address in (run, other)]
    first, second = (side.run for side in sides)
    return RunPair(
        one=sides[0],
        other=sides[1],
        same=(first.task, first.target) == (second.task, second.target),
        steps=_steps(sides[0], sides[1]),
        verdicts={
            name: _verdict(first.best.speedup[name], second.best.speedup[name])
            for name in BASELINES
            if first.best and second.best
            and name in first.best.speedup and name in second.best.speedup
        },
    )  # fmt: skip


def _side(sources: Sources, story: Story) -> Side:
    return Side(run=story.brief, points=points(story), costs=costs(sources, story.brief.run))


def _verdict(one: Ratio, other: Ratio) -> str:
    if other.low > one.high:
        return "faster"
    return "slower" if other.high < one.low else "no clear difference"


def _steps(one: Side, other: Side) -> tuple[ReachedStep, ...]:
    """Return the round speed-ups that one of two runs reached, and the best of each."""
    found = (
        ReachedStep(ratio=ratio, one=_reached(one, ratio), other=_reached(other, ratio))
        for ratio in _STEPS
    )
    return tuple(step for step in found if step.one or step.other)


def _reached(side: Side, ratio: float) -> Reached | None:
    for point in side.points:
        one = point.speedup.get("eager")
        if one is not None and one.ratio >= ratio:
            return Reached(
                number=point.number, place=point.place, second=point.second, tokens=point.tokens
            )
    return None
