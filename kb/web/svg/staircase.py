"""The best so far of a run against candidates, seconds or tokens, with its interval and the failures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from typing import Literal

from markupsafe import Markup

from kb.units import compact
from kb.web.story import BASELINES, Best
from kb.web.svg.draw import Scale, element, joined, number
from kb.web.text import ratio
from kb.web.views.run import Point
from search.outcome import Ratio

Axis = Literal["candidates", "seconds", "tokens"]
AXES: tuple[Axis, ...] = ("candidates", "seconds", "tokens")
WIDTH, HEIGHT = 860.0, 300.0
LEFT, RIGHT, TOP, STRIP, BOTTOM = 46.0, 16.0, 14.0, 22.0, 38.0
NAMES = {"eager": "over eager", "compile": "over torch.compile"}
_MANY = 800  # dots beyond which they are small
_FAR = 2.0  # where all speed-ups are above it, the scale does not begin at none
_FAILED = ("wrong", "build_failed", "crashed", "timed_out", "refused")


@dataclass(frozen=True, slots=True)
class Tread:
    """A candidate that was faster than all before it."""

    x: float
    number: int
    ratio: float
    low: float
    high: float


def staircase(
    points: Sequence[Point], axis: Axis, address: Callable[[int], str], best: Best | None = None
) -> Markup:
    """Return the plot: one line a baseline, a dot a candidate that passed, a tick one that failed.

    Args:
        address: of a node's page.
        best: what the run reports; where it was measured again, that stands at the right end.
    """
    places = places_of(points, axis)
    across = Scale(low=0.0, high=max([*places, 1.0]), start=LEFT, end=WIDTH - RIGHT)
    stairs = {name: treads_of(points, places, name) for name in BASELINES}
    stairs = {name: treads for name, treads in stairs.items() if treads}
    again = dict(best.speedup) if best is not None and best.confirmed else {}
    again = {name: one for name, one in again.items() if name in stairs and one.low > 0}
    bounds = [(one.low, one.high) for treads in stairs.values() for one in treads]
    down = down_scale([*bounds, *((one.low, one.high) for one in again.values())])
    parts = [
        *frame(across, down, axis),
        _dots(points, places, across, down),
        *(stair(name, treads, across, down) for name, treads in stairs.items()),
        _failures(points, places, across),
        *(
            _marks(treads, across, down, address)
            for name, treads in stairs.items()
            if name == "eager"
        ),
        *_again(again, down),
        *_labels(stairs, again, down),
    ]
    ends = [again.get(name) or treads[-1] for name, treads in stairs.items() if name == "eager"]
    told = f": {ratio(ends[0].ratio)} over eager" if ends else ""
    return element(
        "svg",
        joined(parts),
        class_="plot staircase",
        viewBox=f"0 0 {number(WIDTH)} {number(HEIGHT)}",
        role="group",
        aria_label=f"best speed-up so far against {axis}{told}",
    )


def down_scale(bounds: Sequence[tuple[float, float]]) -> Scale:
    """Return the scale of speed-ups; no gain is on it, unless all is far above.

    Args:
        bounds: least and largest of what must be on it.
    """
    low = min((one for one, _ in bounds), default=1.0)
    high = max((one for _, one in bounds), default=1.2)
    low = low / 1.15 if low > _FAR else min(low, 1.0) / 1.05
    return Scale(
        low=low, high=max(high, low * 1.3) * 1.08, start=HEIGHT - BOTTOM - STRIP, end=TOP, log=True
    )


def places_of(points: Sequence[Point], axis: Axis) -> list[float]:
    """Return where each candidate stands on an axis."""
    if axis == "candidates":
        return [float(point.place) for point in points]
    if axis == "seconds":
        return [point.second for point in points]
    return [float(point.tokens) for point in points]


def treads_of(points: Sequence[Point], places: Sequence[float], name: str) -> list[Tread]:
    """Return the candidates that raised the best over a baseline."""
    found: list[Tread] = []
    for x, point in zip(places, points, strict=True):
        one = point.speedup.get(name)
        if one is None or not all(map(isfinite, (one.ratio, one.low, one.high))):
            continue
        if one.low > 0 and (not found or one.ratio > found[-1].ratio):
            found.append(Tread(x, point.number, one.ratio, one.low, one.high))
    return found


def frame(across: Scale, down: Scale, axis: Axis) -> list[Markup]:
    """Return the grid, the axis and their names."""
    floor = HEIGHT - BOTTOM
    lines = [
        f"M{number(LEFT)} {number(down(value))}H{number(WIDTH - RIGHT)}" for value in down.ticks(6)
    ]
    parts = [element("path", d="".join(lines), class_="grid")]
    if down.low <= 1.0:
        parts.append(
            element(
                "path",
                d=f"M{number(LEFT)} {number(down(1.0))}H{number(WIDTH - RIGHT)}",
                class_="one",
            )
        )
    parts += [
        element("text", f"{compact(value)}x", x=LEFT - 8, y=down(value) + 4, class_="tick end")
        for value in down.ticks(6)
    ]
    parts += [
        element("text", compact(value), x=across(value), y=floor + 16, class_="tick mid")
        for value in across.ticks(8)
    ]
    named = {"candidates": "candidates judged", "seconds": "seconds since the run began",
             "tokens": "tokens read and written by models"}[axis]  # fmt: skip
    parts.append(
        element("path", d=f"M{number(LEFT)} {number(floor)}H{number(WIDTH - RIGHT)}", class_="axis")
    )
    parts.append(
        element("text", named, x=(LEFT + WIDTH - RIGHT) / 2, y=HEIGHT - 6, class_="name mid")
    )
    return parts


def _dots(points: Sequence[Point], places: Sequence[float], across: Scale, down: Scale) -> Markup:
    """Return a dot for each candidate that passed; those that would lie on each other are one."""
    cell = 1 if len(points) <= _MANY else 3  # pixels
    seen: set[tuple[int, int]] = set()
    for x, point in zip(places, points, strict=True):
        one = point.speedup.get("eager")
        if one is not None and 0 < one.ratio < inf:
            seen.add((round(across(x) / cell), round(down(one.ratio) / cell)))
    d = "".join(f"M{x * cell} {y * cell}h0" for x, y in sorted(seen))
    return element("path", d=d, class_="dots" if cell == 1 else "dots many")


def _failures(points: Sequence[Point], places: Sequence[float], across: Scale) -> Markup:
    """Return a tick on the axis for each candidate that failed, by kind; kinds lie on rows of their own."""
    floor = HEIGHT - BOTTOM
    seen: dict[str, set[int]] = {kind: set() for kind in _FAILED}
    for x, point in zip(places, points, strict=True):
        if point.outcome in seen:
            seen[point.outcome].add(round(across(x)))
    return joined(
        element(
            "path",
            d="".join(f"M{x} {number(floor - 4 - 4 * row)}v-3" for x in sorted(seen[kind])),
            class_=f"failed {kind}",
        )
        for row, kind in enumerate(_FAILED)
        if seen[kind]
    )


def stair(
    name: str, treads: Sequence[Tread], across: Scale, down: Scale, end: float = WIDTH - RIGHT
) -> Markup:
    """Return a line with the band of its intervals, as far as `end`."""
    xs = [*(across(one.x) for one in treads), end]
    line = [f"M{number(xs[0])} {number(down(treads[0].ratio))}"]
    upper, lower = [], []
    for place, one in enumerate(treads):
        if place:
            line.append(f"V{number(down(one.ratio))}")
        line.append(f"H{number(xs[place + 1])}")
        upper += [(xs[place], down(one.high)), (xs[place + 1], down(one.high))]
        lower += [(xs[place], down(one.low)), (xs[place + 1], down(one.low))]
    band = "M" + "L".join(f"{number(x)} {number(y)}" for x, y in [*upper, *reversed(lower)]) + "Z"
    return joined(
        (
            element("path", d=band, class_=f"band {name}"),
            element("path", d="".join(line), class_=f"stair {name}"),
        )
    )


def _marks(
    treads: Sequence[Tread], across: Scale, down: Scale, address: Callable[[int], str]
) -> Markup:
    """Return a link to each candidate that raised the best."""
    parts = []
    for one in treads:
        told = f"node {one.number}: {ratio(one.ratio)} ({one.low:.2f} to {one.high:.2f})"
        circle = element(
            "circle", element("title", told), cx=across(one.x), cy=down(one.ratio), r="4"
        )
        parts.append(element("a", circle, href=address(one.number), aria_label=told, class_="mark"))
    return joined(parts)


def _again(again: Mapping[str, Ratio], down: Scale) -> list[Markup]:
    """Return what was measured again, with its interval, at the right end."""
    x = WIDTH - RIGHT
    parts = []
    for name, one in again.items():
        y = down(one.ratio)
        bar = f"M{number(x)} {number(down(one.low))}V{number(down(one.high))}"
        parts.append(element("path", d=bar, class_=f"whisker {name}"))
        told = element(
            "title", f"measured again: {ratio(one.ratio)} ({one.low:.2f} to {one.high:.2f})"
        )
        shape = f"M{number(x)} {number(y - 5)}l5 5l-5 5l-5 -5z"
        parts.append(element("path", told, d=shape, class_=f"again {name}"))
    return parts


def _labels(
    stairs: Mapping[str, Sequence[Tread]], again: Mapping[str, Ratio], down: Scale
) -> list[Markup]:
    """Return the names of the lines, kept apart where the lines end near each other."""
    parts: list[Markup] = []
    ends = {name: again.get(name) or treads[-1] for name, treads in stairs.items()}
    last = -100.0
    for name, one in sorted(ends.items(), key=lambda pair: -pair[1].ratio):
        highest = min(down(one.ratio), down(stairs[name][-1].ratio))
        last = max(highest - 11, last + 15)
        parts.append(
            element(
                "text",
                f"{ratio(one.ratio)} {NAMES[name]}",
                x=WIDTH - RIGHT,
                y=last,
                class_=f"label end {name}",
            )
        )
    return parts
