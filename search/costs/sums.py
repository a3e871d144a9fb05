"""How many terms a result is added up from: what rounding may come to in any order of addition."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from search.costs.graph import Operator, OperatorGraph
from search.costs.trace import RECURRENT, family, flops_of, operands, operator_name, products_of

Shape = tuple[int, ...]


def longest_sum(graph: OperatorGraph, outputs: Sequence[str]) -> int:
    """Return the terms of the longest sum or product that one of `outputs` comes from, at least 1."""
    made = {operator.name: operator for operator in graph.operators}
    waiting, seen, longest = list(outputs), set(outputs), 1
    while waiting:
        operator = made.get(waiting.pop())
        if operator is None:
            continue  # an input or a parameter
        longest = max(longest, terms_of(operator, graph))
        for name in operands(operator):
            if name not in seen:
                seen.add(name)
                waiting.append(name)
    return longest


def longest_recurrence(graph: OperatorGraph) -> int:
    """Return how often the longest of a program's recurrent layers rounds its state: sums of all its steps, 1 for none.

    A step's state is rounded as a sum of the features that it reads, and the next step begins with it.
    """
    found = (
        max(shapes[0][:-1], default=1) * sum(shape[-1] for shape in shapes[:2] if shape)
        for operator in graph.operators
        if operator_name(operator) in RECURRENT
        and (shapes := [graph.shape(name) for name in operands(operator)])
    )
    return max(found, default=1)


def terms_of(operator: Operator, graph: OperatorGraph) -> int:
    """Return how many terms one element of an operator's result is added up from, 1 for none."""
    shapes = [graph.shape(name) for name in operands(operator)]
    count = _COUNTS.get(family(operator) or "")
    return max(count(operator, graph, shapes), 1) if count is not None and shapes else 1


def _attention(_: Operator, __: OperatorGraph, shapes: list[Shape]) -> int:
    return max(*shapes[0][-1:], *shapes[1][-2:])


def _product(operator: Operator, _: OperatorGraph, shapes: list[Shape]) -> int:
    if len(shapes) < 2:
        return 1
    products = products_of(operator, family(operator) or "", shapes)
    return int(products) // max(math.prod(operator.shape), 1)


def _pooling(operator: Operator, graph: OperatorGraph, shapes: list[Shape]) -> int:
    out = max(math.prod(operator.shape), 1)
    return max(int(flops_of(operator, graph)), math.prod(shapes[0])) // out


def _reduction(operator: Operator, _: OperatorGraph, shapes: list[Shape]) -> int:
    if operator_name(operator) in ("cdist", "pdist"):
        return max(shapes[0][-1:], default=1)
    read = max(math.prod(shape) for shape in shapes)
    return read // max(math.prod(operator.shape), 1)


def _normalization(operator: Operator, _: OperatorGraph, shapes: list[Shape]) -> int:
    shape, given = shapes[0], operator.args[1] if len(operator.args) > 1 else None
    counted: Shape
    match operator_name(operator), given:
        case "batch_norm", _:
            counted = ()  # a reference in evaluation mode has its statistics
        case (("native_batch_norm" | "_native_batch_norm_legit"), _):
            counted = (shape[0], *shape[2:])  # of a call that finds them
        case "group_norm", int(groups):
            counted = (math.prod(shape[1:]) // max(groups, 1),)
        case "instance_norm", _:
            counted = shape[2:]
        case "local_response_norm", int(size):
            counted = (size,)
        case _, tuple(sizes):
            counted = shape[-len(sizes) :]
        case _:
            counted = (max(shape, default=1),)
    return math.prod(counted)


def _along(operator: Operator, _: OperatorGraph, shapes: list[Shape]) -> int:
    """Return the elements of the dimensions that an operator runs along and keeps."""
    shape = shapes[0]
    dims = next((arg for arg in operator.args[1:] if isinstance(arg, (int, tuple))), None)
    numbers = dims if isinstance(dims, tuple) else (dims,)
    if shape and all(isinstance(at, int) and -len(shape) <= at < len(shape) for at in numbers):
        return math.prod(shape[at] for at in numbers if isinstance(at, int))
    return max(shape, default=1)


_COUNTS: dict[str, Callable[[Operator, OperatorGraph, list[Shape]], int]] = {
    "attention": _attention,
    "convolution": _product,
    "matmul": _product,
    "pooling": _pooling,
    "reduction": _reduction,
    "loss": _reduction,
    "gather-scatter": _reduction,
    "normalization": _normalization,
    "softmax": _along,
    "scan": _along,
}
