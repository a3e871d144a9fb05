"""Poolings of lines, of volumes and to a given size as poolings of planes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from search.codegen.ir import Shape
from search.codegen.operators.new import new_operator
from search.codegen.operators.pointwise import arguments
from search.costs.graph import Operator, Ref

# The greatest of each window of planes, without the places that torch's own function returns as well.
ADAPTIVE_MAX = "recipe.adaptive_max_pool2d"
# Operators that put a border around a tensor, and their arguments.
_PADDINGS = {"pad": ("self", "pad", "mode", "value"), "constant_pad_nd": ("self", "pad", "value")}
# What a pooling says of each dimension, and of one that it leaves alone.
_SIZES = (("kernel", 1), ("stride", 1), ("padding", 0), ("dilation", 1))


class Readers(Protocol):
    """What is known of a graph's tensors and of who reads them."""

    def shape(self, value: Any) -> Shape:
        """Return the shape of a reference, () of what is none."""
        ...

    def made_by(self, value: Any, *packets: str) -> Operator | None:
        """Return the operator that computes `value`, if it is one of `packets`."""
        ...

    def read_parts(self, operator: Operator) -> frozenset[int]:
        """Return the numbers of those results of `operator` that are read."""
        ...


def each(value: Any, rank: int) -> tuple[int, ...]:
    """Return what an operator was given for each of `rank` dimensions, or once for all."""
    listed = (value,) if isinstance(value, int) else tuple(int(item) for item in value)
    return listed * rank if len(listed) == 1 else listed


def view(name: str, value: Ref, shape: Shape) -> Operator:
    """Return the operator that shows `value` in another shape."""
    return new_operator(name, "reshape.default", (value, shape), shape)


def of_lines(graph: Readers, operator: Operator) -> Sequence[Operator] | None:
    """A pooling of lines as one of planes of height one."""
    kind, values = _pooling(operator)
    shape = graph.shape(values["self"])
    if len(shape) != 3:
        return None
    name = operator.name
    sizes = {key: (start, *each(values[key], 1)) for key, start in _SIZES}
    plane = (*operator.shape[:2], 1, operator.shape[2])
    return (
        view(f"{name}_input", values["self"], (*shape[:2], 1, shape[2])),
        _pool(f"{name}_plane", kind, Ref(f"{name}_input"), sizes, values, plane),
        view(name, Ref(f"{name}_plane"), operator.shape),
    )


def of_padded(graph: Readers, operator: Operator) -> Operator:
    """Return an average pooling that pads by itself, where zeros were put around its input before: as a response norm does."""
    _, values = _pooling(operator)
    rank = int(operator.target.split(".")[0][-2])
    around = graph.made_by(values["self"], *_PADDINGS)
    if around is None:
        return operator
    given = arguments(around, *_PADDINGS[around.target.split(".")[0]])
    sides = tuple(given["pad"])
    pairs = [sides[at : at + 2] for at in range(0, len(sides), 2)]
    padding = tuple(pair[0] for pair in reversed(pairs[:rank]))
    padding = (0,) * (rank - len(padding)) + padding
    kernel = each(values["kernel"], rank)
    taken = (
        given.get("mode", "constant") == "constant"
        and not given.get("value")
        and not any(each(values["padding"], rank))
        and not values.get("ceil_mode")
        and not values.get("divisor_override")
        and all(low == high >= 0 for low, high in pairs)
        and not any(any(pair) for pair in pairs[rank:])
        and all(2 * one <= size for one, size in zip(padding, kernel, strict=True))
    )
    if not taken:
        return operator
    args = (given["self"], kernel, each(values["stride"], rank), padding, False, True, None)
    return replace(operator, args=args, kwargs=())


def of_planes(graph: Readers, operator: Operator) -> Sequence[Operator] | None:
    """An average pooling of planes that pads by itself."""
    found = of_padded(graph, operator)
    return (found,) if found is not operator else None


def of_volumes(graph: Readers, operator: Operator) -> Sequence[Operator] | None:
    """A pooling of volumes as one of their planes, then one across the planes."""
    if operator.target.startswith("avg"):
        operator = of_padded(graph, operator)
    kind, values = _pooling(operator)
    shape = graph.shape(values["self"])
    if (
        len(shape) != 5
        or values.get("divisor_override")
        or any(step != 1 for step in each(values["dilation"], 3))
    ):
        return None
    name, (n, c, d, h, w), (od, oh, ow) = operator.name, shape, operator.shape[2:]
    sizes = {key: each(values[key], 3) for key, _ in _SIZES}
    planes = {key: size[1:] for key, size in sizes.items()}
    across = {key: (sizes[key][0], neutral) for key, neutral in _SIZES}
    if all(planes[key] == (neutral, neutral) for key, neutral in _SIZES):
        return (
            view(f"{name}_lines", values["self"], (n, c, d, h * w)),
            _pool(f"{name}_across", kind, Ref(f"{name}_lines"), across, values, (n, c, od, h * w)),
            view(name, Ref(f"{name}_across"), operator.shape),
        )
    return (
        view(f"{name}_planes", values["self"], (n, c * d, h, w)),
        _pool(f"{name}_pooled", kind, Ref(f"{name}_planes"), planes, values, (n, c * d, oh, ow)),
        view(f"{name}_lines", Ref(f"{name}_pooled"), (n, c, d, oh * ow)),
        _pool(f"{name}_across", kind, Ref(f"{name}_lines"), across, values, (n, c, od, oh * ow)),
        view(name, Ref(f"{name}_across"), operator.shape),
    )


def _pooling(operator: Operator) -> tuple[str, dict[str, Any]]:
    """Return the kind of a pooling, ``max`` or ``avg``, and its arguments."""
    kind = operator.target[:3]
    last = ("dilation", "ceil_mode") if kind == "max" else (
        "ceil_mode", "count_include_pad", "divisor_override")  # fmt: skip
    values = arguments(operator, "self", "kernel", "stride", "padding", *last)
    values = {"padding": 0, "dilation": 1, **values}
    return kind, {**values, "stride": values.get("stride") or values["kernel"]}


def _pool(
    name: str,
    kind: str,
    value: Ref,
    sizes: Mapping[str, Any],
    values: Mapping[str, Any],
    shape: Shape,
) -> Operator:
    ceil = bool(values.get("ceil_mode"))
    args = (value, sizes["kernel"], sizes["stride"], sizes["padding"])
    if kind == "max":
        return new_operator(name, "max_pool2d.default", (*args, sizes["dilation"], ceil), shape)
    counted = (ceil, values.get("count_include_pad", True), values.get("divisor_override"))
    return new_operator(name, "avg_pool2d.default", (*args, *counted), shape)


def averages(graph: Readers, operator: Operator) -> Sequence[Operator] | None:
    """An average pooling to a given size; that to one element stays a mean."""
    source, rank = operator.args[0], int(operator.target.split(".")[0][-2])
    if math.prod(operator.shape[len(operator.shape) - rank :]) == 1:
        return None
    return _to_size("avg", operator, source, graph.shape(source), rank)


def greatest(graph: Readers, operator: Operator, pool: Operator) -> Sequence[Operator] | None:
    """The greatest elements of a pooling to a given size whose places nobody reads."""
    source, rank = pool.args[0], int(pool.target.split(".")[0][-2])
    shape = graph.shape(source)
    if graph.read_parts(pool) != {0} or 0 in shape:
        return None
    if math.prod(operator.shape[len(shape) - rank :]) == 1:
        dims = tuple(range(-rank, 0))
        return (new_operator(operator.name, "amax.default", (source, dims, True), operator.shape),)
    return _to_size("max", operator, source, shape, rank)


def _to_size(
    kind: str, operator: Operator, source: Ref, shape: Shape, rank: int
) -> Sequence[Operator] | None:
    """A pooling to a given size: first across the planes of a volume, then of its planes.

    A line is a plane of height one.
    """
    if rank == 2 and len(shape) == 4:
        return (_windows(operator.name, kind, source, shape, operator.shape),)
    lead = math.prod(shape[: len(shape) - rank])
    depth, high, wide = (1,) * (3 - rank) + shape[len(shape) - rank :]
    given = operator.shape[len(operator.shape) - rank :]
    new_depth, *plane = (1,) * (3 - rank) + given
    name, last, made = operator.name, source, list[Operator]()
    steps = (
        ("across", (1, lead, depth, high * wide), (1, lead, new_depth, high * wide)),
        ("planes", (1, lead * new_depth, high, wide), (1, lead * new_depth, *plane)),
    )
    for step, old, new in steps:
        if old != new:
            made += [
                view(f"{name}_{step}_input", last, old),
                _windows(f"{name}_{step}", kind, Ref(f"{name}_{step}_input"), old, new),
            ]
            last = Ref(f"{name}_{step}")
    return (*made, view(name, last, operator.shape)) if made else None


def _windows(name: str, kind: str, value: Ref, old: Shape, new: Shape) -> Operator:
    """Return the pooling of planes to a given size, an ordinary one where all windows are alike."""
    sizes = list(zip(old[2:], new[2:], strict=True))
    if not any(before % after for before, after in sizes):
        window = tuple(before // after for before, after in sizes)
        return new_operator(name, f"{kind}_pool2d.default", (value, window, window), new)
    if kind == "max":
        return new_operator(name, ADAPTIVE_MAX, (value, new[2:]), new)
    return new_operator(name, "adaptive_avg_pool2d.default", (value, new[2:]), new)


REWRITES: Mapping[str, Callable[[Readers, Operator], Sequence[Operator] | None]] = {
    "max_pool1d": of_lines,
    "avg_pool1d": of_lines,
    "avg_pool2d": of_planes,
    "max_pool3d": of_volumes,
    "avg_pool3d": of_volumes,
    **dict.fromkeys((f"adaptive_avg_pool{rank}d" for rank in (1, 2, 3)), averages),
}
