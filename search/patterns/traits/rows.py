"""Forms of reductions, normalisations, softmaxes, losses and scans: along what, how long, what is kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import prod

from search.costs.graph import Operator, OperatorGraph
from search.costs.trace import RECURRENT
from search.patterns.families import argument
from search.patterns.flow import Flow

_LONG, _SHORT = 8192, 64
_FEW_ROWS = 264  # two for each multiprocessor of a large GPU
_ROW_STEPS = ("reduction", "softmax", "normalization", "scan", "loss", "sort")
_ARGUMENTS = {"argmax", "argmin"}
_MOMENTS = {"var", "std", "var_mean", "std_mean"}
_SCANS = {"cumsum", "cumprod", "cummax", "cummin", "logcumsumexp", "cumulative_trapezoid"}
_NORMS = {
    "layer_norm",
    "native_layer_norm",
    "group_norm",
    "instance_norm",
    "batch_norm",
    "rms_norm",
}


def row_traits(flow: Flow) -> Iterator[tuple[str, str]]:
    """Yield traits of what runs along rows or columns, with what shows them."""
    reductions = 0
    for one in flow.steps(*_ROW_STEPS):
        if flow.is_small(one.name) or flow.kind(one.name) in RECURRENT:
            continue
        reductions += flow.step(one.name) == "reduction"
        yield from _along(flow, one)
        kind = flow.kind(one.name)
        if kind in _ARGUMENTS or (kind in {"max", "min"} and len(one.args) > 1):
            yield "index-of-extreme", kind
        if kind in _MOMENTS:
            yield "variance", kind
        if kind in {"logsumexp", "logcumsumexp"}:
            yield "logsumexp", one.name
    for one in flow:
        kind = flow.kind(one.name)
        if kind in {"mean", "var", "var_mean", "std"} and _over_the_batch(flow, one):
            yield "batch-statistics", one.name
        if kind in _NORMS:
            yield kind.removeprefix("native_").replace("_", "-"), one.name
            if kind == "batch_norm":
                trains = len(one.args) > 5 and one.args[5] is True
                yield ("batch-statistics" if trains else "evaluated-batch-norm"), one.name
    if any(
        flow.kind(one.name) not in _NORMS and not flow.is_small(one.name)
        for one in flow.steps("normalization")
    ):
        yield "norm-by-hand", "a moment, its root, a scaling"
    yield from _norm_of_a_sum(flow)
    yield from _blocks(flow)
    if reductions >= 2:
        yield "several-reductions", f"{reductions} of them"
    yield from _scans(flow)
    yield from _losses(flow)
    yield from _backward(flow)
    yield from _distances(flow)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """What a task runs along.

    Attributes:
        length: in elements.
        columns: along other dimensions than the last.
    """

    length: int
    columns: bool


def rows_of(graph: OperatorGraph) -> Rows | None:
    """Return what the first operator that reduces an input, or what has its size, runs along; None where none does."""
    flow = Flow(graph)
    widest = max((prod(one.shape) for one in graph.values if one.kind == "input"), default=0)
    for one in flow.steps(*_ROW_STEPS):
        if flow.kind(one.name) in RECURRENT:
            continue
        taken, places = _run_along(flow, one)
        if places and prod(taken) >= widest:
            length = prod(taken[place] for place in places)
            return Rows(length=length, columns=max(places) < len(taken) - 1)
    return None


def _run_along(flow: Flow, one: Operator) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the shape that an operator takes, and the dimensions of it that it runs along."""
    if one.name in flow.summed_by:  # written out: it runs along what its reduction runs along
        one = flow.operators[flow.summed_by[one.name]]
    names = flow.inputs[one.name]
    taken = flow.shape(names[0]) if names else ()
    return taken, _places(one, len(taken)) if taken else ()


def _along(flow: Flow, one: Operator) -> Iterator[tuple[str, str]]:
    taken, places = _run_along(flow, one)
    if (
        not taken
        or not places
        or flow.kind(one.name) in {"group_norm", "batch_norm", "instance_norm"}
    ):
        return
    length = prod(taken[place] for place in places)
    rows = prod(taken) // max(1, length)
    told = f"{flow.kind(one.name)} over {length} of {'x'.join(map(str, taken))}"
    if rows <= _FEW_ROWS and length >= 1024 and len(places) < len(taken):
        yield "few-rows", told
    if len(places) == len(taken) and prod(one.shape) <= 1:
        yield "reduction-of-everything", told
    elif max(places) < len(taken) - 1:
        yield "not-along-the-last-dimension", told
    elif length >= _LONG:
        yield "long-rows", told
        if rows <= 512:
            yield "few-long-rows", told
    elif length <= _SHORT:
        yield "short-rows", told
    else:
        yield "rows", told


def _places(one: Operator, rank: int) -> tuple[int, ...]:
    """Return the dimensions that an operator runs along."""
    kind = one.target.split(".")[0]
    if not rank or kind in {"layer_norm", "native_layer_norm", "rms_norm"}:
        shape = argument(one, "normalized_shape")
        count = len(shape) if isinstance(shape, tuple) else 1
        return tuple(range(max(0, rank - count), rank))
    if kind in {"mul", "div"}:  # the end of what is written out
        return (rank - 1,)
    if kind in {"cross_entropy_loss", "nll_loss_nd", "nll_loss2d"} and rank > 2:
        return (1,)
    place = argument(one, "dim")
    if isinstance(place, int) and not isinstance(place, bool):
        place = (place,)
    if isinstance(place, tuple) and place and all(isinstance(at, int) for at in place):
        return tuple(at % rank for at in place)
    return tuple(range(rank)) if prod(one.shape) <= 1 else (rank - 1,)


def _over_the_batch(flow: Flow, one: Operator) -> bool:
    """Say whether a moment runs over the first dimension and others beside it, one is left."""
    taken = flow.shape(flow.inputs[one.name][0]) if flow.inputs[one.name] else ()
    places = _places(one, len(taken))
    return 0 in places and 2 <= len(places) < len(taken)


def _blocks(flow: Flow) -> Iterator[tuple[str, str]]:
    """A reduction over dimensions with others between: pooling of blocks that a view cut out."""
    for one in flow.named("mean", "sum", "amax", "amin", "max"):
        taken = flow.shape(flow.inputs[one.name][0]) if flow.inputs[one.name] else ()
        places = sorted(_places(one, len(taken)))
        gaps = [two - one for one, two in pairwise(places)]
        if len(taken) >= 5 and len(places) < len(taken) and any(gap > 1 for gap in gaps):
            yield "pooling-of-blocks", one.name


def _norm_of_a_sum(flow: Flow) -> Iterator[tuple[str, str]]:
    """A normalisation of the sum of two tensors of one shape."""
    for one in flow.steps("normalization"):
        for name in (*flow.inputs[one.name], *_inputs_of_inputs(flow, one.name)):
            origin = flow.origin(name)
            shapes = {flow.shape(taken) for taken in flow.inputs.get(origin, ())}
            whole = len(flow.inputs.get(origin, ())) == 2 and shapes == {flow.shape(origin)}
            if flow.kind(origin) == "add" and whole:
                yield "norm-of-a-sum", origin
                return


def _scans(flow: Flow) -> Iterator[tuple[str, str]]:
    found = [one for one in flow if flow.kind(one.name) in _SCANS]
    for one in found:
        yield "scan", flow.kind(one.name)
        behind = {
            flow.kind(name) for name in (*flow.inputs[one.name], *flow.takers.get(one.name, ()))
        }
        if behind & {"flip"}:
            yield "reversed-scan", one.name
        if behind & {"slice", "cat", "pad", "constant_pad_nd", "sub", "roll"}:
            yield "exclusive-scan", one.name


def _losses(flow: Flow) -> Iterator[tuple[str, str]]:
    outputs = [flow.operators[name] for name in flow.graph.outputs if name in flow.operators]
    scalar = bool(outputs) and all(prod(one.shape) <= 1 for one in outputs)
    if scalar:
        yield "scalar-result", outputs[0].name
    kinds = {flow.kind(one.name) for one in flow}
    picked = kinds & {"gather", "nll_loss", "nll_loss_nd", "cross_entropy_loss", "one_hot"}
    if "one_hot" in kinds and any(flow.steps("softmax")):
        yield "cross-entropy", "softmax and one_hot"
    if picked and (
        kinds & {"log_softmax", "logsumexp", "cross_entropy_loss"} or {"exp", "log"} <= kinds
    ):
        yield "cross-entropy", ", ".join(sorted(picked))
    elif kinds & {"kl_div"} or ("log_softmax" in kinds and scalar):
        yield "loss-of-log-probabilities", ", ".join(sorted(kinds & {"kl_div", "log_softmax"}))
    if any(flow.steps("loss")):
        yield "loss-operator", next(iter(flow.steps("loss"))).name


def _backward(flow: Flow) -> Iterator[tuple[str, str]]:
    """Sums of products of two tensors of equal shape, which a scaled difference then takes: a gradient."""
    sums = [
        one
        for one in flow.named("sum", "mean")
        if any(_product_of_equals(flow, name) for name in flow.inputs[one.name][:1])
    ]
    used = [
        one for one in sums if {"sub", "mul"} & {flow.kind(name) for name in flow.after(one.name)}
    ]
    names = [flow.kind(one.name) for one in flow]
    moments = list(flow.named("sum", "mean"))
    # The gradient of the scale is a sum over rows: with it one difference is enough.
    over_rows = any(0 in _places(one, len(_taken(flow, one))) for one in moments)
    if used and len(moments) >= 2 and names.count("sub") >= (1 if over_rows else 2):
        yield "gradient-of-a-normalisation", f"{used[0].name} of a product of two inputs"


def _taken(flow: Flow, one: Operator) -> tuple[int, ...]:
    return flow.shape(flow.inputs[one.name][0]) if flow.inputs[one.name] else ()


def _product_of_equals(flow: Flow, name: str) -> bool:
    origin = flow.origin(name)
    if flow.kind(origin) != "mul":
        return False
    taken = flow.inputs[origin]
    return len(taken) == 2 and taken[0] != taken[1] and flow.shape(taken[0]) == flow.shape(taken[1])


def _distances(flow: Flow) -> Iterator[tuple[str, str]]:
    for one in flow.named("cdist", "pairwise_distance", "cosine_similarity"):
        yield "pairwise-distances", one.name
    for one in flow.named("sub"):
        taken = [flow.shape(name) for name in flow.inputs[one.name]]
        if (
            len(taken) == 2
            and len(one.shape) >= 3
            and all(prod(s) < prod(one.shape) for s in taken)
        ):
            after = {flow.kind(name) for name in flow.after(one.name)}
            if after & {"pow", "abs", "mul", "square", "linalg_vector_norm"}:
                yield "pairwise-distances", f"{one.name} of every pair"
    for product in flow.steps("matmul"):
        for name in flow.after(product.name):
            way = {flow.kind(one) for one in flow.after(name)} | {flow.kind(name)}
            squares = any(
                flow.kind(flow.origin(other)) in {"sum"}
                for other in (*flow.inputs[name], *_inputs_of_inputs(flow, name))
            )
            if squares and way & {"sub", "add"} and _squares(flow):
                yield "pairwise-distances", f"squares minus twice {product.name}"
                return


def _inputs_of_inputs(flow: Flow, name: str) -> list[str]:
    return [two for one in flow.inputs.get(name, ()) for two in flow.inputs.get(one, ())]


def _squares(flow: Flow) -> bool:
    return any(
        flow.kind(flow.origin(one.name)) in {"pow", "square"}
        or len(set(flow.inputs[one.name])) == 1
        for one in flow.named("pow", "square", "mul")
        if {"sum"} & {flow.kind(name) for name in flow.after(one.name)}
    )
