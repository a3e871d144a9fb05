"""Rewriting the operator graph, so that fewer kinds of operators need recipes of their own."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

from search.codegen.ir import Shape, refs
from search.codegen.operators import products
from search.codegen.operators.new import new_operator
from search.codegen.operators.pointwise import arguments
from search.codegen.operators.recurrent import GATES, Recurrent, recurrent
from search.costs.graph import Operator, OperatorGraph, Ref, Value
from search.costs.windows import even_padding

# Operators with such names are the author's own: the framework has no one function for them.
OWN = "recipe."
_SCANS = ("cumsum", "cumprod")


class _Graph:
    """A graph's operators, and who reads what."""

    def __init__(self, graph: OperatorGraph, whole: Set[str]) -> None:
        self._graph = graph
        self._whole = whole
        self.operators = {operator.name: operator for operator in graph.operators}
        self._users: dict[str, list[Operator]] = {}
        for operator in graph.operators:
            for ref in dict.fromkeys(refs((operator.args, operator.kwargs))):
                self._users.setdefault(ref.name, []).append(operator)

    def shape(self, value: Any) -> Shape:
        """Return the shape of a reference, () of what is none."""
        return self._graph.shape(value.name) if isinstance(value, Ref) else ()

    def dtype(self, value: Ref) -> str:
        """Return the type of a value's elements."""
        entries: tuple[Value | Operator, ...] = (*self._graph.values, *self._graph.operators)
        return next(entry.dtype for entry in entries if entry.name == value.name)

    def made_by(self, value: Any, *packets: str) -> Operator | None:
        """Return the operator that computes `value`, if it is one of `packets`."""
        found = self.operators.get(value.name) if isinstance(value, Ref) else None
        return found if found is not None and _packet(found) in packets else None

    def recurrent(self, operator: Operator | None) -> Recurrent | None:
        """Return what a recurrent operator is made of, None where it stays as it is."""
        if operator is None or self.is_whole(operator):
            return None
        return recurrent(self._graph, operator)

    def is_whole(self, operator: Operator) -> bool:
        """Whether `operator` stays as it is."""
        return operator.name in self._whole

    def is_inner(self, operator: Operator) -> bool:
        """Whether one operator reads `operator`, and it is not returned."""
        return (
            len(self._users.get(operator.name, ())) == 1
            and operator.name not in self._graph.outputs
        )


Rewrite = Callable[[_Graph, Operator], Sequence[Operator] | None]


def canonical(graph: OperatorGraph, whole: Set[str] = frozenset()) -> OperatorGraph:
    """Return `graph` with operators that others express replaced by those.

    What nothing reads any more stays in it.

    Args:
        whole: operators that stay as they are.
    """
    known = _Graph(graph, whole)
    operators: list[Operator] = []
    for operator in graph.operators:
        rewrite = _REWRITES.get(_packet(operator))
        # What stands in its place computes in float32.
        taken = operator.dtype == "float32" and operator.name not in whole
        taken = taken and 0 not in operator.shape
        found = rewrite(known, operator) if rewrite and taken else None
        operators += found or (operator,)
    return replace(graph, operators=tuple(operators))


def _packet(operator: Operator) -> str:
    return operator.target.split(".", maxsplit=1)[0]


def _view(name: str, value: Ref, shape: Shape) -> Operator:
    return new_operator(name, "reshape.default", (value, shape), shape)


def _reversed_scan(graph: _Graph, operator: Operator) -> Sequence[Operator] | None:
    """``flip``, a running sum or product, and ``flip`` back: the same from the other end."""
    scan = graph.made_by(operator.args[0], *_SCANS)
    if scan is None or not graph.is_inner(scan) or dict(scan.kwargs).get("dtype") is not None:
        return None
    first = graph.made_by(scan.args[0], "flip")
    rank = len(operator.shape)
    dim = int(arguments(scan, "self", "dim")["dim"]) % max(rank, 1)
    flips = [[int(at) % rank for at in one.args[1]] for one in (first, operator) if one]
    if first is None or flips != [[dim], [dim]]:
        return None
    target = f"{OWN}{_packet(scan)}"
    return (new_operator(operator.name, target, (first.args[0], dim), operator.shape),)


def _tuple(value: Any, rank: int) -> tuple[int, ...]:
    """Return what an operator was given for each of `rank` dimensions, or once for all."""
    listed = (value,) if isinstance(value, int) else tuple(int(item) for item in value)
    return listed * rank if len(listed) == 1 else listed


def _line_convolution(graph: _Graph, operator: Operator) -> Sequence[Operator] | None:
    """A convolution of lines as one of planes of height one."""
    names = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
    values = arguments(operator, *names)
    shape, kernel = graph.shape(values["input"]), graph.shape(values["weight"])
    padding = even_padding(values.get("padding", 0), kernel[2:], values.get("dilation", 1))
    if len(shape) != 3 or padding is None:
        return None
    name = operator.name
    given = [Ref(f"{name}_input"), Ref(f"{name}_weight"), values.get("bias")]
    sizes = [
        (start, *_tuple(value, 1))
        for start, value in (
            (1, values.get("stride", 1)),
            (0, padding),
            (1, values.get("dilation", 1)),
        )
    ]
    plane = (*operator.shape[:2], 1, operator.shape[2])
    args = (*given, *sizes, values.get("groups", 1))
    return (
        _view(f"{name}_input", values["input"], (*shape[:2], 1, shape[2])),
        _view(f"{name}_weight", values["weight"], (*kernel[:2], 1, kernel[2])),
        new_operator(f"{name}_plane", "conv2d.default", args, plane),
        _view(name, Ref(f"{name}_plane"), operator.shape),
    )


def _line_pool(graph: _Graph, operator: Operator) -> Sequence[Operator] | None:
    """A pooling of lines as one of planes of height one."""
    kind, values = _pooling(operator)
    shape = graph.shape(values["self"])
    if len(shape) != 3:
        return None
    name = operator.name
    sizes = {key: (start, *_tuple(values[key], 1)) for key, start in _POOL_SIZES}
    plane = (*operator.shape[:2], 1, operator.shape[2])
    return (
        _view(f"{name}_input", values["self"], (*shape[:2], 1, shape[2])),
        _pool(f"{name}_plane", kind, Ref(f"{name}_input"), sizes, values, plane),
        _view(name, Ref(f"{name}_plane"), operator.shape),
    )


def _volume_pool(graph: _Graph, operator: Operator) -> Sequence[Operator] | None:
    """A pooling of volumes as one of their planes, then one across the planes."""
    kind, values = _pooling(operator)
    shape = graph.shape(values["self"])
    unusual = values.get("ceil_mode") or values.get("divisor_override")
    if len(shape) != 5 or unusual or any(step != 1 for step in _tuple(values["dilation"], 3)):
        return None
    name, (n, c, d, h, w), (od, oh, ow) = operator.name, shape, operator.shape[2:]
    sizes = {key: _tuple(values[key], 3) for key, _ in _POOL_SIZES}
    planes = {key: size[1:] for key, size in sizes.items()}
    across = {key: (sizes[key][0], neutral) for key, neutral in _POOL_SIZES}
    return (
        _view(f"{name}_planes", values["self"], (n, c * d, h, w)),
        _pool(f"{name}_pooled", kind, Ref(f"{name}_planes"), planes, values, (n, c * d, oh, ow)),
        _view(f"{name}_lines", Ref(f"{name}_pooled"), (n, c, d, oh * ow)),
        _pool(f"{name}_across", kind, Ref(f"{name}_lines"), across, values, (n, c, od, oh * ow)),
        _view(name, Ref(f"{name}_across"), operator.shape),
    )


# What a pooling says of each dimension, and of one that it leaves alone.
_POOL_SIZES = (("kernel", 1), ("stride", 1), ("padding", 0), ("dilation", 1))


def _pooling(operator: Operator) -> tuple[str, dict[str, Any]]:
    """Return the kind of a pooling, ``max`` or ``avg``, and its arguments."""
    kind = _packet(operator)[:3]
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


def _even_pool(graph: _Graph, operator: Operator) -> Sequence[Operator] | None:
    """An adaptive average whose windows are all alike as an ordinary one; one window stays a mean."""
    shape, rank = graph.shape(operator.args[0]), int(_packet(operator)[-2])
    read, made = shape[2:], operator.shape[2:]
    if len(shape) != rank + 2 or math.prod(made) == 1:
        return None
    if any(old % new for old, new in zip(read, made, strict=True)):
        return None
    window = tuple(old // new for old, new in zip(read, made, strict=True))
    target = f"avg_pool{rank}d.default"
    whole = new_operator(operator.name, target, (operator.args[0], window, window), operator.shape)
    rewrite = _REWRITES.get(_packet(whole))
    return (rewrite(graph, whole) if rewrite else None) or (whole,)


def _diagonal_product(graph: _Graph, operator: Operator) -> Sequence[Operator] | None:
    """A product with a diagonal matrix scales rows or columns."""
    for side, other in ((0, 1), (1, 0)):
        diagonal = graph.made_by(operator.args[side], "diag", "diag_embed")
        if diagonal is None or len(operator.shape) != 2:
            continue
        (vector, *rest), factor = diagonal.args, operator.args[other]
        if len(graph.shape(vector)) != 1 or any(rest) or diagonal.kwargs:
            continue
        size, name = graph.shape(vector)[0], f"{operator.name}_scale"
        shape = (size, 1) if side == 0 else (1, size)
        product = (factor, Ref(name))
        return (
            _view(name, vector, shape),
            new_operator(operator.name, "mul.Tensor", product, operator.shape),
        )
    return None


def _attention(graph: _Graph, operator: Operator) -> Sequence[Operator] | None:
    """Attention as two products and a softmax between them; what is masked is minus infinity before it."""
    names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
    values = {**arguments(operator, *names), **dict(operator.kwargs)}
    mask = values.get("attn_mask")
    if values.get("dropout_p") or values.get("enable_gqa"):
        return None
    query, key = (graph.shape(values[side]) for side in ("query", "key"))
    if query[:-2] != key[:-2]:
        return None
    name, scores = operator.name, (*query[:-1], key[-2])
    scale = query[-1] ** -0.5 if values.get("scale") is None else values["scale"]
    turned, given = (*key[:-2], key[-1], key[-2]), values["query"]
    made = [
        new_operator(f"{name}_turned", "transpose.int", (values["key"], -2, -1), turned),
        new_operator(f"{name}_scores", "matmul.default", (given, Ref(f"{name}_turned")), scores),
        new_operator(f"{name}_scaled", "mul.Tensor", (Ref(f"{name}_scores"), scale), scores),
    ]
    if values.get("is_causal"):
        made += _lower(name, given, scores[-2:])
        mask, truth = Ref(made[-1].name), True
    else:
        truth = mask is not None and graph.dtype(mask) == "bool"
    last = Ref(f"{name}_scaled")
    if mask is not None:
        target, args = (
            ("where.ScalarOther", (mask, last, -math.inf))
            if truth
            else ("add.Tensor", (last, mask))
        )
        last = Ref(f"{name}_masked")
        made.append(new_operator(last.name, target, args, scores))
    made.append(new_operator(f"{name}_shares", "softmax.int", (last, -1), scores))
    shares = Ref(f"{name}_shares")
    if mask is not None and truth and not values.get("is_causal"):
        # Of a row that is masked as a whole torch returns zeros.
        shares = Ref(f"{name}_seen")
        args = (mask, Ref(f"{name}_shares"), 0.0)
        made.append(new_operator(shares.name, "where.ScalarOther", args, scores))
    made.append(new_operator(name, "matmul.default", (shares, values["value"]), operator.shape))
    return made


def _lower(name: str, like: Any, square: Shape) -> list[Operator]:
    """Return what says of a matrix where it is not beyond its diagonal."""
    ones, lower = (Ref(f"{name}_{part}") for part in ("ones", "lower"))
    inside = new_operator(f"{name}_inside", "gt.Scalar", (lower, 0.5), square)
    return [
        new_operator(ones.name, "new_ones.default", (like, square), square),
        new_operator(lower.name, "tril.default", (ones,), square),
        replace(inside, dtype="bool"),
    ]


def _distances(graph: _Graph, operator: Operator) -> Sequence[Operator] | None:
    """Distances between rows as norms of their differences, which a recipe of rows keeps in registers."""
    values = arguments(operator, "x1", "x2", "p")
    left, right = (graph.shape(values[side]) for side in ("x1", "x2"))
    if left[:-2] != right[:-2]:
        return None
    name, shape = operator.name, operator.shape
    one, other, apart = (Ref(f"{name}_{part}") for part in ("left", "right", "apart"))
    every = (*shape, left[-1])
    order = values.get("p", 2.0)
    norm: tuple[Operator, ...] = (
        new_operator(name, "linalg_vector_norm.default", (apart, order, (-1,)), shape),
    )
    if order == 0:  # as torch counts here: what is no number is none, where a norm counts it
        size, steps, one_each = (Ref(f"{name}_{part}") for part in ("size", "steps", "ones"))
        norm = (
            new_operator(size.name, "abs.default", (apart,), every),
            new_operator(steps.name, "ceil.default", (size,), every),
            new_operator(one_each.name, "clamp_max.default", (steps, 1), every),
            new_operator(name, "sum.dim_IntList", (one_each, (-1,)), shape),
        )
    return (
        _view(one.name, values["x1"], (*left[:-1], 1, left[-1])),
        _view(other.name, values["x2"], (*right[:-2], 1, *right[-2:])),
        new_operator(apart.name, "sub.Tensor", (one, other), every),
        *norm,
    )


def _recurrent_layers(graph: _Graph, operator: Operator) -> Sequence[Operator] | None:
    found = graph.recurrent(operator)
    return found.written_out() if found else None


def _result(graph: _Graph, operator: Operator) -> Sequence[Operator] | None:
    """What is taken of a recurrent operator's results: all steps, the last states, or an LSTM's last cells; a moment."""
    moments = graph.made_by(operator.args[0], "var_mean", "std_mean")
    if moments is not None:
        return (_moment(operator, moments),)
    step = graph.made_by(operator.args[0], "lstm_cell")
    if step is not None and not graph.is_whole(step):
        result = Ref(products.cells_of(step) if operator.args[1] else step.name)
        return (new_operator(operator.name, "alias.default", (result,), operator.shape),)
    found = graph.recurrent(graph.made_by(operator.args[0], *GATES))
    if found is None:
        return None
    if operator.args[1]:
        return found.last_states(operator.name, cells=operator.args[1] == 2)
    return (new_operator(operator.name, "alias.default", (operator.args[0],), operator.shape),)


def _moment(operator: Operator, moments: Operator) -> Operator:
    """Return the operator that computes one result of `var_mean` or `std_mean` alone."""
    if operator.args[1] == 0:
        target = moments.target.replace("_mean", "", 1)
        return replace(
            moments, name=operator.name, target=target, shape=operator.shape, dtype="float32"
        )
    values = arguments(moments, "self", "dim")
    dims = None if isinstance(values.get("dim"), bool) else values.get("dim")
    return new_operator(operator.name, "mean.dim", (values["self"], dims), operator.shape)


_REWRITES: Mapping[str, Rewrite] = {
    **products.REWRITES,
    "getitem": _result,
    **dict.fromkeys(GATES, _recurrent_layers),
    "scaled_dot_product_attention": _attention,
    "flip": _reversed_scan,
    "cdist": _distances,
    "conv1d": _line_convolution,
    "max_pool1d": _line_pool,
    "avg_pool1d": _line_pool,
    "max_pool3d": _volume_pool,
    "avg_pool3d": _volume_pool,
    **dict.fromkeys((f"adaptive_avg_pool{rank}d" for rank in (1, 2, 3)), _even_pool),
    **dict.fromkeys(("matmul", "mm"), _diagonal_product),
}
