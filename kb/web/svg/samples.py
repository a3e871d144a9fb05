"""The calls that were timed, each a dot: left to right by time, top to bottom in their order."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from math import isfinite

from markupsafe import Markup

from kb.units import time_text
from kb.web.svg.draw import Scale, element, joined, number
from kb.web.text import one_line

WIDTH, ROW = 760.0, 54.0
LEFT, RIGHT, TOP, BOTTOM = 96.0, 16.0, 8.0, 26.0
MOST = 400  # dots of one contender
_NAMES = {
    "candidate": "this node",
    "compile": "torch.compile",
    "first": "the first",
    "second": "the second",
}


def samples(calls: Mapping[str, Sequence[float]]) -> Markup:
    """Return a row a contender, the candidate first, each with its least and its median."""
    rows = {name: [one for one in calls[name] if isfinite(one) and one > 0] for name in calls}
    names = sorted((name for name in rows if rows[name]), key=lambda name: name != "candidate")
    if not names:
        return Markup("")
    every = [one for name in names for one in rows[name]]
    across = Scale(
        low=min(every) / 1.03, high=max(every) * 1.03, start=LEFT, end=WIDTH - RIGHT, log=True
    )
    height = TOP + ROW * len(names) + BOTTOM
    floor = height - BOTTOM
    ticks = across.ticks(6)
    grid = "".join(f"M{number(across(value))} {number(TOP)}V{number(floor)}" for value in ticks)
    parts = [element("path", d=grid, class_="grid")]
    parts += [
        element("text", time_text(value), x=across(value), y=floor + 16, class_="tick mid")
        for value in ticks
    ]
    for row, name in enumerate(names):
        parts.append(_row(name, rows[name], TOP + row * ROW, across))
    told = "; ".join(
        f"{_name(name)}: least {time_text(min(rows[name]))}, median "
        f"{time_text(statistics.median(rows[name]))} of {len(rows[name])}"
        for name in names
    )
    return element(
        "svg", joined(parts), class_="plot samples", role="img", aria_label=told,
        viewBox=f"0 0 {number(WIDTH)} {number(height)}",
    )  # fmt: skip


def _name(contender: str) -> str:
    return _NAMES.get(contender) or one_line(contender, 14)


def _row(name: str, values: Sequence[float], top: float, across: Scale) -> Markup:
    step = max(1, -(-len(values) // MOST))
    shown = values[::step]
    high = ROW - 14
    dots = "".join(
        f"M{number(across(one))} {number(top + 6 + high * place / max(len(shown) - 1, 1))}h0"
        for place, one in enumerate(shown)
    )
    least, median = across(min(values)), across(statistics.median(values))
    return joined(
        (
            element("text", _name(name), x=LEFT - 10, y=top + ROW / 2 + 1, class_="name end"),
            element(
                "path", d=f"M{number(median)} {number(top + 2)}v{number(ROW - 6)}", class_="median"
            ),
            element(
                "path", d=f"M{number(least)} {number(top + 2)}v{number(ROW - 6)}", class_="least"
            ),
            element(
                "path",
                d=dots,
                class_=f"call {'mine' if name in ('candidate', 'first') else 'other'}",
            ),
        )
    )
