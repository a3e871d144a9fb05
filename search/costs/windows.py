"""What of its input and of its kernel the windows of a convolution or a pooling use."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from search.costs.demand import swept
from search.costs.graph import Operator, OperatorGraph
from search.costs.trace import operands, operator_name


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowUse:
    """Shares that no program can spare.

    Attributes:
        read: of the input's elements, those in a window.
        taps: of the kernel's places, those that ever meet an element: the others meet padding alone.
        pairs: of the products, those of such a place and an element.
    """

    read: float = 1.0
    taps: float = 1.0
    pairs: float = 1.0


def window_use(operator: Operator, graph: OperatorGraph) -> WindowUse:
    """Return what the windows of `operator` use; all of it where nothing is known."""
    name = operator_name(operator)
    if "adaptive" in name or (name == "convolution" and operator.args[6]):
        return WindowUse()
    turned = "transpose" in name
    read, taps, pairs = 1.0, 1.0, 1.0
    for axis in _axes(operator, graph, turned):
        used = _along(axis, turned)
        read, taps, pairs = read * used.read, taps * used.taps, pairs * used.pairs
    return WindowUse(read=read, taps=taps, pairs=pairs)


class _Axis(NamedTuple):
    """Window w has its place k at ``w * stride + k * dilation - padding`` of `size` elements."""

    size: int
    windows: int
    kernel: int
    stride: int
    dilation: int
    padding: int


def _axes(operator: Operator, graph: OperatorGraph, turned: bool) -> Iterable[_Axis]:
    name, shape = operator_name(operator), graph.shape(operands(operator)[0])
    if "conv" in name:
        kernel = graph.shape(operands(operator)[1])[2:]
        rank = len(kernel)
        stride, dilation = _each(operator, 3, rank), _each(operator, 7 if turned else 5, rank)
    else:
        rank = next((rank for rank in (1, 2, 3) if f"{rank}d" in name), 0)
        kernel = _each(operator, 1, rank)
        stride = _each(operator, 2, rank, kernel)
        dilation = _each(operator, 4, rank) if name.startswith("max") else (1,) * rank
    padding: Any = operator.args[4 if "conv" in name else 3 : 5 if "conv" in name else 4]
    if padding in (("same",), ("valid",)):
        pads = tuple(before for before, _ in named_padding(padding[0], kernel, dilation))
    else:
        pads = _each(operator, 4 if "conv" in name else 3, rank, (0,) * rank)
    sizes, windows = shape[len(shape) - rank :], operator.shape[len(operator.shape) - rank :]
    if turned:  # each element of the input has a window of the result
        sizes, windows = windows, sizes
    return map(_Axis._make, zip(sizes, windows, kernel, stride, dilation, pads, strict=True))


def named_padding(
    name: str, kernel: Sequence[int], dilation: Sequence[int]
) -> tuple[tuple[int, int], ...]:
    """Return what a convolution adds before and after each axis for ``same`` or ``valid`` padding."""
    spans = [
        apart * (wide - 1) * (name == "same") for wide, apart in zip(kernel, dilation, strict=True)
    ]
    return tuple((span // 2, span - span // 2) for span in spans)


def even_padding(padding: Any, kernel: Sequence[int], dilation: Any) -> Any:
    """Return a convolution's padding in numbers, None where it differs between the sides of an axis.

    Args:
        padding: in numbers, or by name.
        kernel: its sizes by axis.
        dilation: by axis, or one number for all.
    """
    if not isinstance(padding, str):
        return padding
    rank = len(kernel)
    listed = (dilation,) if isinstance(dilation, int) else tuple(dilation)
    sides = named_padding(padding, kernel, listed * rank if len(listed) == 1 else listed)
    even = all(before == after for before, after in sides)
    return tuple(before for before, _ in sides) if even else None


def _along(axis: _Axis, turned: bool) -> WindowUse:
    spans: dict[int, list[tuple[int, int, float]]] = defaultdict(list)
    taps = pairs = 0
    for place in range(axis.kernel):
        shift = place * axis.dilation - axis.padding
        first = max(0, -(shift // axis.stride))
        last = min(axis.windows, (axis.size - 1 - shift) // axis.stride + 1)
        if first < last:
            taps, pairs = taps + 1, pairs + last - first
            rest, by = (0, 0) if turned else (shift % axis.stride, shift // axis.stride)
            spans[rest].append((first + by, last + by, 1.0))
    read = sum(map(swept, spans.values()))
    return WindowUse(
        read=read / max(axis.windows if turned else axis.size, 1),
        taps=taps / max(axis.kernel, 1),
        pairs=pairs / max(axis.windows * axis.kernel, 1),
    )


def _each(
    operator: Operator, at: int, rank: int, otherwise: tuple[int, ...] = ()
) -> tuple[int, ...]:
    """Return an argument that may be one number for all axes, absent or empty."""
    given: Any = operator.args[at] if at < len(operator.args) else ()
    listed = (given,) if isinstance(given, int) else tuple(given or ())
    return listed * rank if len(listed) == 1 else listed or otherwise or (1,) * rank
