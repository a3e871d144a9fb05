"""What was measured of a node: the calls that were timed, its place under the roofline, its counters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isfinite

from kb.web.sources import Sources
from kb.web.story import Candidate, Story
from search.outcome import KernelTime, Passed, Ratio

# Units by a part of a figure's name, with what a value is multiplied by.
_UNITS = (
    ("bandwidth", 1.0, "B/s"),
    ("gflops", 1e9, "FLOP/s"),
    ("flops", 1.0, "FLOP"),
    ("bytes", 1.0, "B"),
    ("clock", 1.0, "Hz"),
    ("temperature", 1.0, " °C"),
    ("roofline", 100.0, " %"),
    ("share", 100.0, " %"),
    ("occupancy", 100.0, " %"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """A program under the roofline.

    Attributes:
        kind: node, ancestor or baseline.
        node: its number, None for baselines.
        intensity: FLOP a byte.
        rate: FLOP/s.
    """

    name: str
    kind: str
    node: int | None
    intensity: float
    rate: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Roof:
    """What the device can do for a task, and what programs reach.

    Attributes:
        peak: FLOP/s that are attainable.
        bandwidth: bytes/s.
    """

    peak: float
    bandwidth: float
    spots: tuple[Spot, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelShare:
    """A kernel of a profile, with its share of the device's time."""

    told: KernelTime
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """Everything that was measured of a node that passed.

    Attributes:
        calls: by contender, seconds of what was timed; empty where an older `kb` kept none.
        counters: name and value with its unit.
    """

    seconds: Mapping[str, float]
    speedup: Mapping[str, Ratio]
    calls: Mapping[str, tuple[float, ...]]
    roof: Roof | None
    kernels: tuple[KernelShare, ...]
    counters: tuple[tuple[str, str], ...]


def measures(sources: Sources, story: Story, one: Candidate, outcome: Passed) -> Measures:
    """Return what was measured of a node."""
    total = sum(kernel.seconds for kernel in outcome.kernels) or 1.0
    return Measures(
        seconds={"candidate": outcome.seconds, **story.brief.baselines},
        speedup=outcome.speedup,
        calls={name: calls for name, calls in outcome.calls.items() if calls},
        roof=_roof(sources, story, one, outcome),
        kernels=tuple(KernelShare(told=k, share=k.seconds / total) for k in outcome.kernels),
        counters=tuple(
            (name.replace("_", " "), counter(name, value))
            for name, value in sorted(outcome.profile.items())
        ),
    )


def _roof(sources: Sources, story: Story, one: Candidate, outcome: Passed) -> Roof | None:
    told = outcome.profile
    needed = [
        told.get(name, 0.0) for name in ("flops", "bytes", "floor_memory", "floor_arithmetic")
    ]
    if not all(isfinite(value) and value > 0 for value in needed):
        return None
    flops, moved, memory, arithmetic = needed
    return Roof(
        peak=flops / arithmetic,
        bandwidth=moved / memory,
        spots=tuple(_spots(sources, story, one, flops, moved)),
    )


def _spots(
    sources: Sources, story: Story, one: Candidate, flops: float, moved: float
) -> Iterator[Spot]:
    from kb.web.views.run import read_about

    work = read_about(sources, story.brief.run).get("work") or {}
    traffic = float(work.get("traffic") or moved)
    for name, seconds in story.brief.baselines.items():
        # Eager writes what is between its operators to memory and reads it again.
        each = flops / max(traffic if name == "eager" else moved, 1.0)
        yield Spot(name=name, kind="baseline", node=None, intensity=each, rate=flops / seconds)
    for each_one in story.path(one.number):
        if each_one.seconds:
            yield Spot(
                name=f"node {each_one.number}",
                kind="node" if each_one.number == one.number else "ancestor",
                node=each_one.number,
                intensity=flops / moved,
                rate=flops / each_one.seconds,
            )


def counter(name: str, value: float) -> str:
    """Return a figure of a profile in the unit that its name says."""
    from kb.units import compact, time_text

    if not isfinite(value):
        return str(value)
    if "seconds" in name or name in ("floor_memory", "floor_arithmetic"):
        return time_text(value) if value > 0 else "0"
    for part, scale, unit in _UNITS:
        if part in name:
            return f"{compact(value * scale)}{unit}"
    return compact(value)


def counters_beside(one: Measures | None, other: Measures | None) -> list[tuple[str, str, str]]:
    """Return the figures that one of two nodes has, with "" where the other has none."""
    pair = [dict(each.counters) if each is not None else {} for each in (one, other)]
    return [
        (name, pair[0].get(name, ""), pair[1].get(name, ""))
        for name in sorted({*pair[0], *pair[1]})
    ]
