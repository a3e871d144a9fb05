"""The best so far of two runs on common axes."""

from __future__ import annotations

from markupsafe import Markup

from kb.web.svg.draw import Scale, element, joined, number
from kb.web.svg.staircase import (
    HEIGHT,
    LEFT,
    RIGHT,
    WIDTH,
    Axis,
    down_scale,
    frame,
    places_of,
    stair,
    treads_of,
)
from kb.web.text import one_line, ratio
from kb.web.views.compare import Side


def two_stairs(one: Side, other: Side, axis: Axis) -> Markup:
    """Return a line a run, each as far as it went, with the bands of their intervals."""
    sides = {"first": one, "second": other}
    places = {name: places_of(side.points, axis) for name, side in sides.items()}
    furthest = max([1.0, *(value for values in places.values() for value in values)])
    across = Scale(low=0.0, high=furthest, start=LEFT, end=WIDTH - RIGHT)
    stairs = {name: treads_of(side.points, places[name], "eager") for name, side in sides.items()}
    stairs = {name: treads for name, treads in stairs.items() if treads}
    down = down_scale([(t.low, t.high) for treads in stairs.values() for t in treads])
    parts = frame(across, down, axis)
    last = -100.0
    for name, treads in sorted(stairs.items(), key=lambda pair: -pair[1][-1].ratio):
        end = across(places[name][-1])
        parts.append(stair(name, treads, across, down, end))
        last = max(down(treads[-1].ratio) - 8, last + 15)
        told = f"{one_line(sides[name].run.run, 28)} {ratio(treads[-1].ratio)}"
        parts.append(element("text", told, x=WIDTH - RIGHT, y=last, class_=f"label end {name}"))
    return element(
        "svg", joined(parts), class_="plot staircase", role="img",
        aria_label=f"best speed-up over eager so far against {axis}, two runs",
        viewBox=f"0 0 {number(WIDTH)} {number(HEIGHT)}",
    )  # fmt: skip
