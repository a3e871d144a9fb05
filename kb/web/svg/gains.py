"""Gains as dots along a logarithmic line: what won lies right of one, what lost left, failures apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import log

from markupsafe import Markup

from kb.web.svg.draw import Scale, element, joined, number
from kb.web.text import one_line, ratio
from kb.web.trials import Trial

WIDTH, ROW = 760.0, 34.0
LEFT, RIGHT, TOP, BOTTOM = 190.0, 16.0, 8.0, 26.0
_FAILED = 40.0  # width of the strip of failures
SMALL_WIDTH, SMALL_HEIGHT = 120.0, 18.0
_MOST = 4.0  # gains beyond which, either way, a small plot is cut


def gains(rows: Sequence[tuple[str, Sequence[Trial]]], address: Callable[[Trial], str]) -> Markup:
    """Return a row of dots for each place: each a link to its node, whiskers are intervals.

    Args:
        rows: name and trials.
        address: of a trial's node.
    """
    listed = [one for _, trials in rows for one in trials]
    bounds = [v for one in listed if one.ratio for v in (one.ratio, one.low, one.high) if v]
    across = Scale(
        low=min([0.8, *bounds]),
        high=max([1.25, *bounds]),
        start=LEFT + _FAILED,
        end=WIDTH - RIGHT,
        log=True,
    )
    height = TOP + ROW * len(rows) + BOTTOM
    floor = height - BOTTOM
    ticks = across.ticks(8)
    grid = "".join(f"M{number(across(value))} {number(TOP)}V{number(floor)}" for value in ticks)
    parts = [
        element("path", d=grid, class_="grid"),
        element("path", d=f"M{number(across(1.0))} {number(TOP)}V{number(floor)}", class_="one"),
        *(
            element("text", f"{v:.3g}x", x=across(v), y=floor + 16, class_="tick mid")
            for v in ticks
        ),
    ]
    if any(not one.ratio for one in listed):
        parts.append(element("text", "failed", x=LEFT - 4, y=floor + 16, class_="tick mid"))
    for place, (name, trials) in enumerate(rows):
        parts.append(_row(name, trials, TOP + ROW * place, across, address))
    return element(
        "svg", joined(parts), class_="plot gains", role="group",
        aria_label=f"gains of {len(listed)} implementations",
        viewBox=f"0 0 {number(WIDTH)} {number(height)}",
    )  # fmt: skip


def _row(
    name: str, trials: Sequence[Trial], top: float, across: Scale, address: Callable[[Trial], str]
) -> Markup:
    middle = top + ROW / 2
    parts = [
        element(
            "path",
            d=f"M{number(LEFT - 4)} {number(top + ROW)}H{number(WIDTH - RIGHT)}",
            class_="grid",
        ),
        element("text", one_line(name, 30), x=LEFT - 12, y=middle + 4, class_="name end"),
    ]
    seen: dict[int, int] = {}
    for one in sorted(trials, key=lambda trial: trial.ratio or 0.0):
        x = across(one.ratio) if one.ratio else LEFT + 8
        # Dots that would hide each other are set apart, up and down in turn.
        there = seen[round(x / 7)] = seen.get(round(x / 7), 0) + 1
        y = middle + (there // 2) * (4 if there % 2 else -4) if there < 8 else middle
        parts.append(_dot(one, x, y, across, address))
    return joined(parts)


def _dot(one: Trial, x: float, y: float, across: Scale, address: Callable[[Trial], str]) -> Markup:
    gained = f"{ratio(one.ratio)} ({one.low:.2f} to {one.high:.2f})" if one.ratio else one.outcome
    told = f"{one.run.run} node {one.node}: {gained}"
    inside = [element("title", told)]
    if one.ratio and one.low and one.high:
        line = f"M{number(across(one.low))} {number(y)}H{number(across(one.high))}"
        inside.append(element("path", d=line, class_="whisker"))
        inside.append(element("circle", cx=x, cy=y, r="4"))
    else:
        inside.append(
            element("path", d=f"M{number(x - 3)} {number(y - 3)}l6 6m0 -6l-6 6", class_="cross")
        )
    return element(
        "a", joined(inside), href=address(one), aria_label=told, class_=f"fate {one.fate}"
    )


def small_gains(values: Iterable[float], failed: int) -> Markup:
    """Return gains in one line of a table, from a quarter to four times."""
    across = Scale(low=1 / _MOST, high=_MOST, start=14.0, end=SMALL_WIDTH - 4, log=True)
    told = [value for value in values if value > 0]
    middle = number(SMALL_HEIGHT / 2)
    dots = dict.fromkeys(f"M{number(across(value))} {middle}h0" for value in told if value >= 1)
    lost = dict.fromkeys(f"M{number(across(value))} {middle}h0" for value in told if value < 1)
    parts = [
        element("path", d=f"M{number(across(1.0))} 1V{number(SMALL_HEIGHT - 1)}", class_="one"),
        element("path", d="".join(dots), class_="up"),
        element("path", d="".join(lost), class_="down"),
    ]
    if failed:
        parts.append(
            element("path", d=f"M2 {number(SMALL_HEIGHT / 2 - 3)}l6 6m0 -6l-6 6", class_="cross")
        )
    mean = sum(map(log, told)) / len(told) if told else 0.0
    return element(
        "svg", joined(parts), class_="spark strip", role="img",
        aria_label=f"{len(told)} passed, {failed} failed, {'gained' if mean > 0 else 'lost'} on average",
        viewBox=f"0 0 {number(SMALL_WIDTH)} {number(SMALL_HEIGHT)}", width=SMALL_WIDTH, height=SMALL_HEIGHT,
    )  # fmt: skip
