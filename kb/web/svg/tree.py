"""A search tree from left to right, a column a round: each idea a row of bars, one a candidate.

A bar is as high as its candidate was fast; what failed is a mark on the ground. The way to the best runs
along the top. Few ideas are named; of many the names are told when one is pointed at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from kb.web.svg.draw import element, joined, number
from kb.web.text import one_line, ratio
from kb.web.views.tree import Group, Leaf, Tree, tally

NAMED = 90  # groups up to which each has its name beside it
_BAR, _STEP = 5.0, 7.0  # width of a bar, and from one to the next
_PER_ROW = 12  # bars of one row


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """Sizes of a drawing: with names, or without."""

    named: bool
    row: float  # height of a group
    gap: float  # between two columns
    bar: float  # height of the highest bar
    least: float  # width of a column


NAMES = Form(named=True, row=46.0, gap=34.0, bar=18.0, least=196.0)
DENSE = Form(named=False, row=20.0, gap=18.0, bar=13.0, least=14.0)


@dataclass(frozen=True, slots=True)
class Box:
    """Where a group stands: its left top corner and its width."""

    x: float
    y: float
    width: float


def draw_tree(tree: Tree, address: Callable[[int], str]) -> Markup:
    """Return the tree.

    Args:
        address: of a node's page.
    """
    form = NAMES if len(tree.groups) <= NAMED else DENSE
    boxes = _boxes(tree.groups, form)
    width = max((box.x + box.width for box in boxes), default=0.0) + 12
    height = max((box.y for box in boxes), default=0.0) + form.row + 10
    parts = [
        *_edges(tree.groups, boxes, form),
        *_bars(tree, boxes, form),
        *(_link(group, box, form, address) for group, box in zip(tree.groups, boxes, strict=True)),
    ]
    return element(
        "svg",
        joined(parts),
        class_="tree named" if form.named else "tree",
        viewBox=f"0 0 {number(width)} {number(height)}",
        width=width,
        height=height,
        role="group",
        aria_label=f"search tree: {tree.candidates} candidates of {len(tree.groups)} ideas",
    )


def _boxes(groups: Sequence[Group], form: Form) -> list[Box]:
    columns: dict[int, list[Group]] = {}
    for group in groups:
        columns.setdefault(group.round, []).append(group)
    lefts: dict[int, tuple[float, float]] = {}
    x = 26.0
    for round in sorted(columns):
        bars = max(min(len(group.leaves), _PER_ROW) for group in columns[round])
        width = max(form.least, bars * _STEP + 6)
        lefts[round] = (x, width)
        x += width + form.gap
    # The first row is for the way to the best alone: its line crosses no other group.
    first = int(any(group.on_path for group in groups))
    boxes: list[Box] = []
    rows: dict[int, int] = {}
    for group in groups:
        row = 0 if group.on_path else max(rows.get(group.round, 0), first)
        left, width = lefts[group.round]
        boxes.append(Box(left, 8.0 + row * form.row, width))
        rows[group.round] = row + _rows(group, form)
    return boxes


def _rows(group: Group, form: Form) -> int:
    """Return how many rows of the drawing a group takes."""
    return 1 if form.named else max(1, -(-len(group.leaves) // _PER_ROW))


def _ground(box: Box, form: Form) -> float:
    return box.y + (form.row - 8 if form.named else form.row - 4)


def _edges(groups: Sequence[Group], boxes: Sequence[Box], form: Form) -> list[Markup]:
    """Return the lines from what ideas were for to the ideas; one drawing each for all and for the best."""
    lines: dict[bool, list[str]] = {False: [], True: []}
    for group, box in zip(groups, boxes, strict=True):
        from_x, from_y = 6.0, _ground(boxes[0], form) - 4
        if group.above is not None:
            over = boxes[group.above]
            from_x, from_y = (
                over.x + _breadth(groups[group.above], over, form),
                _ground(over, form) - 4,
            )
        to_x, to_y = box.x - 3, _ground(box, form) - 4
        bend = max(to_x - from_x, 8.0) / 2
        lines[group.on_path].append(
            f"M{from_x:.0f} {from_y:.0f}c{bend:.0f} 0 {bend:.0f} {to_y - from_y:.0f} "
            f"{to_x - from_x:.0f} {to_y - from_y:.0f}"
        )
    parts = [
        element("path", d="".join(lines[False]), class_="edge"),
        element("path", d="".join(lines[True]), class_="edge on"),
    ]
    if boxes:
        parts.append(
            element("circle", cx=6.0, cy=_ground(boxes[0], form) - 4, r="4", class_="root")
        )
    return parts


def _breadth(group: Group, box: Box, form: Form) -> float:
    return box.width if form.named else min(len(group.leaves), _PER_ROW) * _STEP + 2


def _bars(tree: Tree, boxes: Sequence[Box], form: Form) -> list[Markup]:
    """Return all candidates, one path for each kind of outcome."""
    paths: dict[str, list[str]] = {}
    most = math.log1p(max(tree.most, 0.0)) or 1.0
    for group, box in zip(tree.groups, boxes, strict=True):
        for place, leaf in enumerate(group.leaves):
            across, down = place % _PER_ROW, place // _PER_ROW
            if form.named:
                across, down = (place, 0) if place < 26 else (26, 0)
            x = box.x + across * _STEP
            y = _ground(box, form) + down * form.row
            paths.setdefault(_class(tree, leaf), []).append(_mark(leaf, x, y, form, most))
    return [
        element("path", d="".join(found), class_=f"leaf {kind}") for kind, found in paths.items()
    ]


def _class(tree: Tree, leaf: Leaf) -> str:
    best = tree.run.best is not None and leaf.number == tree.run.best.node
    return "best" if best else leaf.outcome


def _mark(leaf: Leaf, x: float, y: float, form: Form, most: float) -> str:
    if leaf.outcome == "passed" and leaf.ratio is not None and math.isfinite(leaf.ratio):
        high = max(2.0, form.bar * math.log1p(max(leaf.ratio, 0.0)) / most)
        return f"M{number(x)} {number(y)}v-{number(high)}h{number(_BAR)}v{number(high)}z"
    if leaf.outcome == "checked":
        return f"M{number(x)} {number(y)}v-{number(form.bar / 2)}h{number(_BAR)}v{number(form.bar / 2)}z"
    if leaf.outcome == "pending":
        return f"M{number(x + 1)} {number(y - 1)}h3"
    return f"M{number(x)} {number(y - 5)}l5 5m0 -5l-5 5"


def _link(group: Group, box: Box, form: Form, address: Callable[[int], str]) -> Markup:
    best = group.best
    gained = ratio(best.ratio) if best.ratio else best.outcome.replace("_", " ")
    counts = ", ".join(
        f"{count} {kind.replace('_', ' ')}" for kind, count in tally(group.leaves).items()
    )
    many = f"{group.ideas} ideas, best: " if group.ideas > 1 else ""
    told = f"{many}{one_line(group.title, 90)}: {gained} ({counts})"
    breadth = _breadth(group, box, form)
    high = form.row * _rows(group, form)
    area = f"M{number(box.x - 3)} {number(box.y)}h{number(breadth + 4)}v{number(high - 3)}h-{number(breadth + 4)}z"
    inside = [element("title", told), element("path", d=area)]
    if form.named:
        inside.append(
            element("text", one_line(group.title, 33), x=box.x, y=box.y + 12, class_="title")
        )
        shown = min(len(group.leaves), 27) * _STEP + 5
        inside.append(
            element(
                "text",
                gained,
                x=box.x + shown,
                y=_ground(box, form),
                class_=f"gained {_tone(group)}",
            )
        )
    return element("a", joined(inside), href=address(best.number), aria_label=told)


def _tone(group: Group) -> str:
    return "on" if group.on_path else "failed" if not group.best.ratio else ""
