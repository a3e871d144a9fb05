"""The curve of fast_p: the share of a suite's problems that are solved and faster than p, over p."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from kb.web.svg.draw import Scale, element, joined, number

WIDTH, HEIGHT = 760.0, 300.0
LEFT, RIGHT, TOP, BOTTOM = 52.0, 130.0, 10.0, 34.0
_NAMES = {"eager": "eager", "compile": "torch.compile"}


def fast_p(curves: Mapping[str, Sequence[tuple[float, float]]]) -> Markup:
    """Return a falling staircase for each baseline.

    Args:
        curves: by baseline, 0 and speed-ups in order, each with the share of problems that is faster.
    """
    known = {name: points for name, points in curves.items() if len(points) > 1}
    if not known:
        return Markup("")
    ratios = [ratio for points in known.values() for ratio, _ in points[1:]]
    across = Scale(
        low=min(0.5, *ratios),
        high=max(2.0, *ratios) * 1.05,
        start=LEFT,
        end=WIDTH - RIGHT,
        log=True,
    )
    down = Scale(low=0.0, high=1.0, start=HEIGHT - BOTTOM, end=TOP)
    parts = [_axes(across, down)]
    ends: list[float] = []
    for place, (name, points) in enumerate(known.items()):
        parts.append(_curve(name, points, across, down, ends, second=place > 0))
    told = "; ".join(
        f"over {_NAMES.get(name, name)}: {len(known[name]) - 1} solved" for name in known
    )
    return element(
        "svg", joined(parts), class_="plot fast", role="img", aria_label=f"fast_p, {told}",
        viewBox=f"0 0 {number(WIDTH)} {number(HEIGHT)}",
    )  # fmt: skip


def _axes(across: Scale, down: Scale) -> Markup:
    floor = down(0.0)
    ticks, shares = across.ticks(8), (0.0, 0.25, 0.5, 0.75, 1.0)
    grid = "".join(f"M{number(across(v))} {number(TOP)}V{number(floor)}" for v in ticks)
    grid += "".join(f"M{number(LEFT)} {number(down(v))}H{number(across.end)}" for v in shares)
    return joined([
        element("path", d=grid, class_="grid"),
        element("path", d=f"M{number(across(1.0))} {number(TOP)}V{number(floor)}", class_="one"),
        *(element("text", f"{v:.3g}", x=across(v), y=floor + 15, class_="tick mid") for v in ticks),
        *(element("text", f"{v:.0%}", x=LEFT - 6, y=down(v) + 4, class_="tick end") for v in shares),
        element("text", "p: solved, and more than p times as fast", x=(LEFT + across.end) / 2,
                y=HEIGHT - 4, class_="tick mid"),
    ])  # fmt: skip


def _curve(
    name: str,
    points: Sequence[tuple[float, float]],
    across: Scale,
    down: Scale,
    ends: list[float],
    *,
    second: bool,
) -> Markup:
    (_, solved), *falls = points
    path = f"M{number(LEFT)} {number(down(solved))}"
    for ratio, share in falls:
        path += f"H{number(across(ratio))}V{number(down(share))}"
    y = down(solved) + 4
    while any(abs(y - other) < 15 for other in ends):
        y += 15
    ends.append(y)
    kind = "compile" if second else "eager"
    return joined([
        element("path", d=path, class_=f"stair {kind}"),
        element("text", f"over {_NAMES.get(name, name)}", x=across.end + 8, y=y, class_=f"label {kind}"),
    ])  # fmt: skip
