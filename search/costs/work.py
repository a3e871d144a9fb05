"""What a reference costs: its own arithmetic and traffic, and what of them nobody can spare."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from math import inf

from kb.errors import TaskError
from search.costs.graph import Operator, OperatorGraph, Value, Work
from search.costs.lower_bound import sure
from search.costs.trace import family, flops_of, nbytes, operands, operator_graph, operator_name
from search.reference import Problem

# A byte from memory costs a core about as much as eight operations of its vector units.
_BYTE = 8
_PRODUCTS = frozenset({"matmul", "convolution"})
_TWO_BYTES = frozenset({"float16", "bfloat16"})
# Operators with an exponential, a logarithm or the like for each element.
_SLOW = frozenset({
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "logaddexp", "logit", "xlogy", "logcumsumexp",
    "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh",
    "erf", "erfc", "erfinv", "lgamma", "digamma", "sigmoid", "log_sigmoid", "silu", "gelu", "glu", "mish",
    "softplus", "elu", "celu", "selu", "softmax", "log_softmax", "logsumexp", "cross_entropy_loss",
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "kl_div", "scaled_dot_product_attention",
})  # fmt: skip


def traced_work(problem: Problem) -> tuple[OperatorGraph | None, Work | None, list[str]]:
    """Return a reference's operators and what they cost, or a line that says why they are not known."""
    try:
        graph = operator_graph(problem)
    except TaskError as error:
        return None, None, [str(error)]
    return graph, count_work(graph), []


def operator_costs(graph: OperatorGraph) -> dict[str, float]:
    """Return what each operator costs by count, in operations; 0 for one that computes nothing."""
    sizes = _sizes(graph)
    return {
        one.name: max(flops_of(one, graph), _BYTE * _moved(one, sizes)) if family(one) else 0.0
        for one in graph.operators
    }


def least_seconds(graph: OperatorGraph, peak: Mapping[str, float], bandwidth: float) -> float:
    """Return how long a device takes at least for the operators one by one.

    Products and convolutions reach half the peak of TF32: short operands are used where a task allows them, and
    elsewhere three products of halves do for one of float32.

    Args:
        peak: FLOP/s by type.
        bandwidth: bytes a second.
    """
    sizes = _sizes(graph)
    plain = peak.get("float32", inf)  # where none is known, traffic alone counts
    products = max(plain, peak.get("tf32", 0.0) / 2)
    return sum(
        max(
            flops_of(one, graph) / (products if family(one) in _PRODUCTS else plain),
            _moved(one, sizes) / bandwidth,
        )
        for one in graph.operators
        if family(one)
    )


def _sizes(graph: OperatorGraph) -> dict[str, int]:
    entries: tuple[Value | Operator, ...] = (*graph.values, *graph.operators)
    return {entry.name: nbytes(entry) for entry in entries}


def _slow(operator: Operator) -> str | None:
    """Return the name of an operator that takes many instructions an element, None for another."""
    name = operator_name(operator)
    if name == "pow":
        power = operator.args[-1]
        # Squares, roots and their like are products and square roots.
        plain = isinstance(power, int | float) and float(2 * power).is_integer()
        return None if plain else name
    return name if name in _SLOW else None


def _moved(operator: Operator, sizes: Mapping[str, int]) -> int:
    """Return the bytes that an operator reads and writes."""
    return sizes[operator.name] + sum(sizes.get(name, 0) for name in set(operands(operator)))


def count_work(graph: OperatorGraph) -> Work:
    """Count what `graph` costs: operations, and bytes with and without its intermediates."""
    sizes = _sizes(graph)
    costs: dict[str, float] = defaultdict(float)
    flops = traffic = 0.0
    for operator in graph.operators:
        kind = family(operator)
        if kind is None:
            continue
        moved = _moved(operator, sizes)
        work = flops_of(operator, graph)
        flops += work
        traffic += moved
        costs[kind] += max(work, _BYTE * moved)
    least = sum(nbytes(value) for value in graph.values) + sum(
        sizes[name] for name in set(graph.outputs)
    )
    families = tuple(sorted(costs, key=lambda kind: -costs[kind]))
    products = [one for one in graph.operators if family(one) in _PRODUCTS | {"attention"}]
    sure_flops, sure_bytes, sure_weights = sure(graph)
    dtypes = {value.dtype for value in graph.values} | {one.dtype for one in graph.operators}
    return Work(
        flops=flops,
        bytes=float(least),
        traffic=max(traffic, float(least)),
        families=families,
        functions=tuple(dict.fromkeys(filter(None, map(_slow, graph.operators)))),
        sure_flops=sure_flops,
        sure_bytes=sure_bytes,
        sure_weights=sure_weights,
        short=not dtypes.isdisjoint(_TWO_BYTES),
        short_products=bool(products) and all(one.dtype in _TWO_BYTES for one in products),
    )
