"""Rewriting the operator graph, so that fewer kinds of operators need recipes of their own."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

from search.codegen.ir import Shape, refs
from search.codegen.operators import pools, products, solutions
from search.codegen.operators.new import new_operator
from search.codegen.operators.pointwise import arguments
from search.codegen.operators.pools import each, view
from search.codegen.operators.recurrent import GATES, Recurrent, recurrent
from search.costs.graph import Operator, OperatorGraph, Ref, Value
from search.costs.windows import even_padding, named_padding

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

    def read_parts(self, operator: Operator) -> frozenset[int]:
        """Return the numbers of those results of `operator` that are read."""
        users = self._users.get(operator.name, ())
        read = (u for u in users if u.name in self._graph.outputs or u.name in self._users)
        return frozenset(user.args[1] for user in read)

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
        (start, *each(value, 1))
        for start, value in (
            (1, values.get("stride", 1)),
            (0, padding),
            (1, values.get("dilation", 1)),
        )
    ]
    plane = (*operator.shape[:2], 1, operator.shape[2])
    args = (*given, *sizes, values.get("groups", 1))
    return (
        view(f"{name}_input", values["input"], (*shape[:2], 1, shape[2])),
        view(f"{name}_weight", values["weight"], (*kernel[:2], 1, kernel[2])),
        new_operator(f"{name}_plane", "conv2d.default", args, plane),
        view(name, Ref(f"{name}_plane"), operator.shape),
    )


def _uneven_convolution(graph: _Graph, operator: Operator) -> Sequence[Operator] | None:
    """A convolution whose padding is not the same on both sides as one of a padded input."""
    names = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
    values = arguments(operator, *names)
    shape, kernel = graph.shape(values["input"]), graph.shape(values["weight"])
    dilation = values.get("dilation", 1)
    uneven = even_padding(values.get("padding", 0), kernel[2:], dilation) is None
    if len(shape) != len(kernel) or not uneven:
        return None
    rank = len(kernel) - 2
    sides = named_padding(values["padding"], kernel[2:], each(dilation, rank))
    whole = tuple(n + sum(side) for n, side in zip(shape[2:], sides, strict=True))
    padded = Ref(f"{operator.name}_padded")
    around = tuple(side for pair in reversed(sides) for side in pair)
    stride = each(values.get("stride", 1), rank)
    args = (padded, values["weight"], values.get("bias"), stride, (0,) * rank, each(dilation, rank))
    return (
        new_operator(
            padded.name,
            "constant_pad_nd.default",
            (values["input"], around, 0.0),
            (*shape[:2], *whole),
        ),
        replace(
            operator,
            args=(*args, values.get("groups", 1)),
            kwargs=(),
            target=f"conv{rank}d.default",
        ),
    )


def _attention(graph: _Graph, operator: Operator) -> Sequence[Operator] | None:
    """Attention as two products and a softmax between them; what is masked is minus infinity before it."""
    names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
    values = {**arguments(operator, *names), **dict(operator.kwargs)}
    mask = values.get("attn_mask")
    query, key = (graph.shape(values[side]) for side in ("query", "key"))
    made: list[Operator] = []
    if values.get("enable_gqa") and query[:-3] == key[:-3] and query[-3:-2] != key[-3:-2]:
        for side in ("key", "value"):
            made += _repeated(graph, f"{operator.name}_{side}", values[side], query[:-2])
            values[side] = Ref(made[-1].name)
        key = (*query[:-2], *key[-2:])
    if values.get("dropout_p") or query[:-2] != key[:-2]:
        return None
    name, scores = operator.name, (*query[:-1], key[-2])
    scale = query[-1] ** -0.5 if values.get("scale") is None else values["scale"]
    turned, given = (*key[:-2], key[-1], key[-2]), values["query"]
    made += [
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
    if mask is not None:
        # Of a row that is masked as a whole, or whose scores are as far down, torch returns zeros.
        unseen = new_operator(f"{name}_unseen", "eq.Scalar", (last, -math.inf), scores)
        kept = (Ref(unseen.name), 0.0, shares)
        shares = Ref(f"{name}_seen")
        made += [
            replace(unseen, dtype="bool"),
            new_operator(shares.name, "where.ScalarSelf", kept, scores),
        ]
    made.append(new_operator(name, "matmul.default", (shares, values["value"]), operator.shape))
    return made


def _repeated(graph: _Graph, name: str, heads: Any, lead: Shape) -> list[Operator]:
    """Return what gives each head of keys or values as many times in a row as there are queries' heads for it."""
    *rest, count, n, k = graph.shape(heads)
    shape = (*rest, count, lead[-1] // count, n, k)
    apart, wide, whole = (f"{name}_{part}" for part in ("apart", "wide", "heads"))
    return [
        new_operator(apart, "unsqueeze.default", (heads, -3), (*rest, count, 1, n, k)),
        new_operator(wide, "expand.default", (Ref(apart), shape), shape),
        view(whole, Ref(wide), (*lead, n, k)),
    ]


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
        view(one.name, values["x1"], (*left[:-1], 1, left[-1])),
        view(other.name, values["x2"], (*right[:-2], 1, *right[-2:])),
        new_operator(apart.name, "sub.Tensor", (one, other), every),
        *norm,
    )


def _recurrent_layers(graph: _Graph, operator: Operator) -> Sequence[Operator] | None:
    found = graph.recurrent(operator)
    return found.written_out() if found else None


def _result(graph: _Graph, operator: Operator) -> Sequence[Operator] | None:
    """What is taken of a recurrent operator's results: all steps, the last states, or an LSTM's last cells.

    Or of what has several results besides: see `_OF_SEVERAL`.
    """
    for packets, rewrite in _OF_SEVERAL.items():
        several = graph.made_by(operator.args[0], *packets)
        if several is not None and not graph.is_whole(several):
            return rewrite(graph, operator, several)
    found = graph.recurrent(graph.made_by(operator.args[0], *GATES))
    if found is None:
        return None
    if operator.args[1]:
        return found.last_states(operator.name, cells=operator.args[1] == 2)
    return (new_operator(operator.name, "alias.default", (operator.args[0],), operator.shape),)


def _greatest(graph: _Graph, operator: Operator, pool: Operator) -> Sequence[Operator] | None:
    return pools.greatest(graph, operator, pool) if operator.args[1] == 0 else None


def _of_step(graph: _Graph, operator: Operator, step: Operator) -> Sequence[Operator]:  # noqa: ARG001
    result = Ref(products.cells_of(step) if operator.args[1] else step.name)
    return (new_operator(operator.name, "alias.default", (result,), operator.shape),)


def _pivots(graph: _Graph, operator: Operator) -> Sequence[Operator] | None:  # noqa: ARG001 - as all are called
    """The factors of a matrix without their elements: these are taken from where they lie."""
    if len(operator.args) != 2 or operator.kwargs:
        return None
    return (replace(operator, args=(*operator.args, False, True)),)


def _unpacked(graph: _Graph, operator: Operator, factors: Operator) -> Sequence[Operator] | None:
    """The lower or the upper factor that lie in one matrix; what the library makes of the pivots stays its own."""
    given, name, part = factors.args[0], operator.name, operator.args[1]
    rows, columns = graph.shape(given)[-2:]
    least, batch = min(rows, columns), graph.shape(given)[:-2]
    if part == 0 or len(factors.args) > 2 or factors.kwargs:
        return None
    made: list[Operator] = []
    dim, size = (-1, columns) if part == 1 else (-2, rows)
    if size > least:
        shape = (*batch, rows, least) if part == 1 else (*batch, least, columns)
        made.append(new_operator(f"{name}_piece", "narrow.default", (given, dim, 0, least), shape))
        given = Ref(f"{name}_piece")
    if part == 2:
        return (*made, new_operator(name, "triu.default", (given,), operator.shape))
    lower, ones = Ref(f"{name}_lower"), Ref(f"{name}_ones")
    return (
        *made,
        new_operator(lower.name, "tril.default", (given, -1), operator.shape),
        new_operator(ones.name, "eye.m", (rows, least), (rows, least)),
        new_operator(name, "add.Tensor", (lower, ones), operator.shape),
    )


def _moment(graph: _Graph, operator: Operator, moments: Operator) -> Sequence[Operator]:  # noqa: ARG001
    """One result of `var_mean` or `std_mean` alone."""
    if operator.args[1] == 0:
        target = moments.target.replace("_mean", "", 1)
        return (
            replace(
                moments, name=operator.name, target=target, shape=operator.shape, dtype="float32"
            ),
        )
    values = arguments(moments, "self", "dim")
    dims = None if isinstance(values.get("dim"), bool) else values.get("dim")
    return (new_operator(operator.name, "mean.dim", (values["self"], dims), operator.shape),)


_OF_SEVERAL: Mapping[
    tuple[str, ...], Callable[[_Graph, Operator, Operator], Sequence[Operator] | None]
] = {
    tuple(f"adaptive_max_pool{rank}d" for rank in (1, 2, 3)): _greatest,
    ("var_mean", "std_mean"): _moment,
    ("lstm_cell",): _of_step,
    ("lu_unpack",): _unpacked,
}


_REWRITES: Mapping[str, Rewrite] = {
    **products.REWRITES,
    **pools.REWRITES,
    **solutions.REWRITES,
    "getitem": _result,
    **dict.fromkeys(GATES, _recurrent_layers),
    "scaled_dot_product_attention": _attention,
    "flip": _reversed_scan,
    "cdist": _distances,
    "lu_unpack": _pivots,
    "conv1d": _line_convolution,
    **dict.fromkeys(("conv2d", "conv3d"), _uneven_convolution),
}
