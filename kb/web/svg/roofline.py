"""Programs under the roof of their device (Williams, Waterman, Patterson 2009)."""

from __future__ import annotations

from collections.abc import Callable

from markupsafe import Markup

from kb.units import compact
from kb.web.svg.draw import Scale, element, joined, number
from kb.web.views.measures import Roof, Spot

WIDTH, HEIGHT = 560.0, 320.0
LEFT, RIGHT, TOP, BOTTOM = 62.0, 20.0, 16.0, 40.0


def roofline(roof: Roof, address: Callable[[int], str]) -> Markup:
    """Return the plot: the roof, the baselines, the ancestors and the node.

    Args:
        address: of a node's page.
    """
    ridge = roof.peak / roof.bandwidth
    places = [spot.intensity for spot in roof.spots]
    low, high = min([*places, ridge]) / 4, max([*places, ridge]) * 4
    rates = [spot.rate for spot in roof.spots]
    across = Scale(low=low, high=high, start=LEFT, end=WIDTH - RIGHT, log=True)
    top = max([*rates, roof.peak]) * 2
    bottom = min([*rates, roof.bandwidth * min(places, default=ridge)]) / 2
    down = Scale(low=bottom, high=top, start=HEIGHT - BOTTOM, end=TOP, log=True)
    parts = [*_frame(across, down), _roof(roof, across, down, low, high, bottom)]
    parts += _spots(roof, across, down, address)
    nodes = [spot for spot in roof.spots if spot.kind == "node"]
    attained = ""
    if nodes:
        share = nodes[0].rate / min(roof.peak, roof.bandwidth * nodes[0].intensity)
        attained = f": {share:.1%} of what is attainable"
    return element(
        "svg",
        joined(parts),
        class_="plot roof",
        viewBox=f"0 0 {number(WIDTH)} {number(HEIGHT)}",
        role="group",
        aria_label=f"roofline{attained}",
    )


def _frame(across: Scale, down: Scale) -> list[Markup]:
    floor = HEIGHT - BOTTOM
    ticks = down.ticks(6)
    grid = "".join(
        f"M{number(LEFT)} {number(down(value))}H{number(WIDTH - RIGHT)}" for value in ticks
    )
    return [
        element("path", d=grid, class_="grid"),
        element(
            "path", d=f"M{number(LEFT)} {number(floor)}H{number(WIDTH - RIGHT)}", class_="axis"
        ),
        *(element("text", compact(v), x=LEFT - 7, y=down(v) + 4, class_="tick end") for v in ticks),
        *(
            element("text", compact(v), x=across(v), y=floor + 16, class_="tick mid")
            for v in across.ticks(6)
        ),
        element(
            "text", "FLOP a byte", x=(LEFT + WIDTH - RIGHT) / 2, y=HEIGHT - 6, class_="name mid"
        ),
        element("text", "FLOP/s", x=LEFT - 7, y=TOP - 4, class_="name end"),
    ]


def _roof(roof: Roof, across: Scale, down: Scale, low: float, high: float, bottom: float) -> Markup:
    ridge = roof.peak / roof.bandwidth
    start = max(low, bottom / roof.bandwidth)
    d = (
        f"M{number(across(start))} {number(down(roof.bandwidth * start))}"
        f"L{number(across(ridge))} {number(down(roof.peak))}H{number(across(high))}"
    )
    named = f"{compact(roof.peak)}FLOP/s"
    slope = f"{compact(roof.bandwidth)}B/s"
    middle = (start * ridge) ** 0.5
    return joined(
        (
            element("path", d=d, class_="roofline"),
            element("text", named, x=across(high), y=down(roof.peak) - 7, class_="label end"),
            element(
                "text",
                slope,
                x=across(middle) - 8,
                y=down(roof.bandwidth * middle) - 6,
                class_="label end",
            ),
        )
    )


def _spots(roof: Roof, across: Scale, down: Scale, address: Callable[[int], str]) -> list[Markup]:
    parts: list[Markup] = []
    taken: list[tuple[float, float]] = []
    order = {"node": 0, "baseline": 1, "ancestor": 2}
    for spot in sorted(roof.spots, key=lambda one: order[one.kind]):
        x, y = across(spot.intensity), down(spot.rate)
        told = f"{spot.name}: {compact(spot.rate)}FLOP/s at {spot.intensity:.3g} FLOP a byte"
        parts.append(_spot(spot, x, y, told, address))
        free = all(abs(y - other) > 13 or abs(x - at) > 90 for at, other in taken)
        if free:
            taken.append((x, y))
            parts.append(
                element("text", spot.name, x=x + 9, y=y + 4, class_=f"spotname {spot.kind}")
            )
    return parts


def _spot(spot: Spot, x: float, y: float, told: str, address: Callable[[int], str]) -> Markup:
    title = element("title", told)
    if spot.kind == "baseline":
        shape = f"M{number(x - 5)} {number(y - 5)}h10v10h-10z"
        return element("path", title, d=shape, class_="spot baseline")
    circle = element(
        "circle",
        title,
        cx=x,
        cy=y,
        r="6" if spot.kind == "node" else "4",
        class_=f"spot {spot.kind}",
    )
    assert spot.node is not None
    return element("a", circle, href=address(spot.node), aria_label=told, class_="mark")
