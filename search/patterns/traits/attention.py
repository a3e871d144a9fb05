"""Forms of attention: what masks the scores, how many queries there are, where keys come from."""

from __future__ import annotations

from collections.abc import Iterator

from search.costs.graph import Operator
from search.patterns.flow import Flow
from search.patterns.traits.products import has_weights

_TRIANGLES = {"tril", "triu", "tril_", "triu_"}
_COMPARISONS = {"lt", "le", "gt", "ge"}
_MASKS = {"masked_fill", "where"}


def attention_traits(flow: Flow) -> Iterator[tuple[str, str]]:
    """Yield traits of attention with what shows them."""
    scores = [one for one in flow.steps("softmax") if _scores(flow, one)]
    for one in flow.steps("softmax"):
        if one not in scores and (pooled := _pooling(flow, one)):
            yield "pooling-by-scores", pooled
    for one in flow.steps("attention"):
        yield "attention", one.name
        yield from _fused(flow, one)
    for one in scores:
        yield "attention", f"{one.name} between two products"
        yield from _masked(flow, one)
        yield from _few_queries(one)
        product = _product(flow, one)
        if product is not None:
            yield from _shared_keys(flow, product)
            yield from _crossed(product)
    if not scores and (found := _linear(flow)):
        yield "linear-attention", found
    if rotation := _rotation(flow):
        yield "rotation-of-pairs", rotation


def _scores(flow: Flow, softmax: Operator) -> bool:
    into = _product(flow, softmax) is not None
    onward = any(
        softmax.name in flow.before(one.name) and len(one.shape) > 2 for one in flow.steps("matmul")
    )
    return into and onward


def _product(flow: Flow, softmax: Operator) -> Operator | None:
    """Return the product of queries and keys behind a softmax: a layer's weights are no keys."""
    found = [
        one
        for one in flow.before(softmax.name)
        if flow.step(one) == "matmul" and not has_weights(flow, flow.inputs[one])
    ]
    return flow.operators[found[0]] if found else None


def _pooling(flow: Flow, softmax: Operator) -> str:
    """Return the weighted sum that a softmax of a layer's scores makes, "" where none follows."""
    scored = any(flow.step(one) == "matmul" for one in flow.before(softmax.name))
    for one in (*flow.steps("matmul"), *flow.steps("reduction")):
        if scored and softmax.name in flow.before(one.name):
            return one.name
    return ""


def _fused(flow: Flow, operator: Operator) -> Iterator[tuple[str, str]]:
    arguments = dict(operator.kwargs)
    if arguments.get("is_causal") or True in operator.args[4:6]:
        yield "causal-mask", operator.name
    if len(operator.args) > 3 and operator.args[3] is not None:
        yield "masked-scores", operator.name
    queries = flow.shape(flow.inputs[operator.name][0])
    if len(queries) > 1 and queries[-2] <= 8:
        yield "one-query", f"{queries[-2]} queries"
    if arguments.get("enable_gqa"):
        yield "shared-keys", operator.name


def _masked(flow: Flow, softmax: Operator) -> Iterator[tuple[str, str]]:
    way = flow.on_the_way(softmax.name)
    triangles = way & _TRIANGLES
    compared = way & _COMPARISONS
    if way & _MASKS:
        yield "masked-scores", ", ".join(sorted(way & _MASKS))
    ranges = "arange" in way
    band = len(triangles) == 2 or (ranges and ("abs" in way or _compares(flow, softmax) > 1))
    if band:
        yield "window-mask", ", ".join(sorted(triangles | compared))
    elif triangles or (ranges and compared):
        yield "causal-mask", ", ".join(sorted(triangles | compared))
    constants = [
        name
        for name in flow.before(softmax.name)
        if name in flow.values and flow.values[name].dtype == "bool"
    ]
    if constants:
        yield "masked-scores", constants[0]
    if "add" in way and any(
        name in flow.values and len(flow.shape(name)) > 1 and flow.shape(name)[-1] > 1
        for name in flow.before(softmax.name)
    ):
        yield "bias-on-scores", "added before the softmax"


def _compares(flow: Flow, softmax: Operator) -> int:
    found, waiting, seen = 0, list(flow.inputs[softmax.name]), set()
    while waiting:
        one = waiting.pop()
        if one in seen or one not in flow.operators or flow.step(one):
            continue
        seen.add(one)
        found += flow.kind(one) in _COMPARISONS
        waiting += flow.inputs[one]
    return found


def _few_queries(softmax: Operator) -> Iterator[tuple[str, str]]:
    shape = softmax.shape
    if len(shape) > 1 and shape[-2] <= 8 and shape[-1] >= 64:
        yield "one-query", f"{shape[-2]} queries against {shape[-1]} keys"
    elif len(shape) > 1 and shape[-1] <= 64:
        yield "short-sequence", f"{shape[-1]} keys"


def _shared_keys(flow: Flow, product: Operator) -> Iterator[tuple[str, str]]:
    way = flow.on_the_way(product.name)
    if way & {"repeat_interleave", "repeat"} or "expand" in way:
        yield "shared-keys", ", ".join(sorted(way & {"repeat_interleave", "repeat", "expand"}))


def _crossed(product: Operator) -> Iterator[tuple[str, str]]:
    lengths = product.shape[-2:]
    if len(lengths) == 2 and lengths[0] != lengths[1] and min(lengths) > 8:
        yield "cross-attention", f"{lengths[0]} queries, {lengths[1]} keys"


def _linear(flow: Flow) -> str:
    """Two products of batches without a softmax between, one of which is summed over many positions."""
    for one in flow.steps("matmul"):
        if len(one.shape) < 3 or flow.kind(one.name) == "linear":
            continue
        behind = [name for name in flow.before(one.name) if flow.step(name) == "matmul"]
        for name in behind:
            inner = flow.operators[name].shape
            if len(inner) < 3 or flow.kind(name) == "linear" or _transformed(flow, one.name):
                continue
            summed = _summed([flow.shape(other) for other in flow.inputs[name]], inner)
            features = max(inner[-2:])
            if summed >= 2 * features:
                return f"{one.name} of {name}, which sums over {summed} positions"
            if inner[-1] == inner[-2] and inner[-1] >= 2 * one.shape[-1]:
                return f"{name} is {inner[-2]}x{inner[-1]} and enters {one.name} without a softmax"
    return ""


def _transformed(flow: Flow, name: str) -> bool:
    """Say whether an activation lies before a product, so that it is no part of a chain."""
    return bool(flow.on_the_way(name) & {"relu", "gelu", "silu", "tanh", "sigmoid"})


def _summed(taken: list[tuple[int, ...]], out: tuple[int, ...]) -> int:
    sizes = [size for shape in taken[:2] for size in shape[-2:] if size not in out[-2:]]
    return max(sizes, default=0)


def _rotation(flow: Flow) -> str:
    """``cat(-b, a)`` beside products with a cosine and a sine, or the same by even and odd places."""
    for one in flow.named("cat", "stack"):
        parts = flow.inputs[one.name]
        kinds = [flow.kind(name) for name in parts]
        if len(parts) == 2 and ("neg" in kinds or ("sub" in kinds and "add" in kinds)):
            return one.name
    for one in flow.named("view_as_complex"):
        return one.name
    return ""
