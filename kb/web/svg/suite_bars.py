"""A row a problem of a suite: its speed-up with its interval, or its share of the roofline."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from kb.web.svg.draw import Scale, element, joined, number
from kb.web.text import one_line, ratio
from kb.web.views.suite import BarRow

WIDTH, ROW = 760.0, 17.0
LEFT, RIGHT, TOP, BOTTOM = 250.0, 60.0, 6.0, 26.0
_NAMES = {"eager": "eager", "compile": "torch.compile"}


def speedups(rows: Sequence[BarRow], baseline: str) -> Markup:
    """Return speed-ups over a baseline, the largest first; whiskers are intervals, what failed is a cross."""
    if not any(row.speedup for row in rows):
        return Markup("")
    ordered = sorted(rows, key=lambda row: -row.speedup.ratio if row.speedup else 0.0)
    bounds = [
        v for row in rows if row.speedup for v in (row.speedup.low, row.speedup.high) if v > 0
    ]
    across = Scale(
        low=min([0.8, *bounds]), high=max([1.25, *bounds]), start=LEFT, end=WIDTH - RIGHT, log=True
    )
    floor = TOP + ROW * len(ordered)
    parts = [_grid(across, floor, "{:.3g}x")]
    parts.append(
        element("path", d=f"M{number(across(1))} {number(TOP)}V{number(floor)}", class_="one")
    )
    for place, row in enumerate(ordered):
        parts.append(_speedup(row, TOP + ROW * (place + 0.5), across))
    solved = sum(row.speedup is not None for row in rows)
    return _drawn(
        parts, floor, f"speed-ups of {solved} problems over {_NAMES.get(baseline, baseline)}"
    )


def shares(rows: Sequence[BarRow]) -> Markup:
    """Return the share of the attainable rate that the best program of each solved problem reaches."""
    known = sorted((row for row in rows if row.share), key=lambda row: -(row.share or 0.0))
    if not known:
        return Markup("")
    most = max(1.0, *(row.share or 0.0 for row in known))
    across = Scale(low=0.0, high=most, start=LEFT, end=WIDTH - RIGHT)
    floor = TOP + ROW * len(known)
    parts = [_grid(across, floor, "{:.0%}")]
    for place, row in enumerate(known):
        y, share = TOP + ROW * (place + 0.5), row.share or 0.0
        parts.append(_name(row.name, y))
        parts.append(
            element(
                "rect", x=LEFT, y=y - 5, width=max(across(share) - LEFT, 1.0), height=10.0,
                class_="reached",
            )
        )  # fmt: skip
        parts.append(element("text", f"{share:.0%}", x=across(share) + 6, y=y + 4, class_="tick"))
    return _drawn(parts, floor, f"share of the roofline of {len(known)} problems")


def _speedup(row: BarRow, y: float, across: Scale) -> Markup:
    parts = [_name(row.name, y)]
    found = row.speedup
    if found is None:
        cross = f"M{number(LEFT + 4)} {number(y - 3)}l6 6m0 -6l-6 6"
        parts.append(element("path", d=cross, class_="cross"))
        parts.append(element("text", one_line(row.told, 70), x=LEFT + 16, y=y + 4, class_="tick"))
        return element("g", joined(parts))
    fate = "won" if found.low > 1 else "lost" if found.high < 1 else "even"
    told = f"{row.name}: {ratio(found.ratio)} ({found.low:.2f} to {found.high:.2f})"
    whisker = f"M{number(across(found.low))} {number(y)}H{number(across(found.high))}"
    inside = [
        element("title", told),
        element("path", d=whisker, class_="whisker"),
        element("circle", cx=across(found.ratio), cy=y, r="4"),
    ]
    parts.append(element("g", joined(inside), class_=f"fate {fate}"))
    parts.append(element("text", ratio(found.ratio), x=WIDTH - RIGHT + 8, y=y + 4, class_="tick"))
    return element("g", joined(parts))


def _name(name: str, y: float) -> Markup:
    return element("text", one_line(name, 40), x=LEFT - 10, y=y + 4, class_="name end")


def _grid(across: Scale, floor: float, form: str) -> Markup:
    ticks = across.ticks(8)
    lines = "".join(f"M{number(across(v))} {number(TOP)}V{number(floor)}" for v in ticks)
    return joined([
        element("path", d=lines, class_="grid"),
        *(element("text", form.format(v), x=across(v), y=floor + 16, class_="tick mid") for v in ticks),
    ])  # fmt: skip


def _drawn(parts: Sequence[Markup], floor: float, told: str) -> Markup:
    return element(
        "svg", joined(parts), class_="plot gains", role="img", aria_label=told,
        viewBox=f"0 0 {number(WIDTH)} {number(floor + BOTTOM)}",
    )  # fmt: skip
