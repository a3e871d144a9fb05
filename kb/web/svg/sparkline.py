"""A line of one row: the best so far, with nothing around it."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from kb.web.svg.draw import Scale, element, number
from kb.web.text import ratio

WIDTH, HEIGHT = 112.0, 24.0


def sparkline(values: Sequence[float]) -> Markup:
    """Return a staircase through `values`, on a scale from the least that was faster than nothing."""
    if not values:
        return Markup("")
    positive = [value for value in values if value > 0]
    low, high = min(positive, default=1.0), max(positive, default=1.0)
    down = Scale(low=low, high=max(high, low * 1.05), start=HEIGHT - 4, end=2.0, log=True)
    across = Scale(low=0, high=max(len(values) - 1, 1), start=1.0, end=WIDTH - 3)
    path, last = [], None
    for place, value in enumerate(values):
        if value <= 0:
            continue
        x, y = number(across(place)), number(down(value))
        path.append(f"M{x} {y}" if last is None else f"H{x}" if y == last else f"H{x}V{y}")
        last = y
    floor = number(HEIGHT - 1)
    parts = [
        element("path", d=f"M0 {floor}H{number(WIDTH)}", class_="rule"),
        element("path", d="".join(path), class_="best"),
    ]
    if last is not None:
        parts.append(
            element("circle", cx=across(len(values) - 1), cy=float(last), r="2", class_="end")
        )
    told = f"best so far: {ratio(high)} over eager" if positive else "nothing passed"
    return element(
        "svg",
        Markup("").join(parts),
        class_="spark",
        viewBox=f"0 0 {number(WIDTH)} {number(HEIGHT)}",
        width=WIDTH,
        height=HEIGHT,
        role="img",
        aria_label=told,
    )
