"""What a reference costs: its own arithmetic and traffic, and what of them nobody can spare."""

from __future__ import annotations

from collections import defaultdict

from search.costs.graph import Operator, OperatorGraph, Value, Work
from search.costs.lower_bound import sure
from search.costs.trace import family, flops_of, nbytes, operands


def count_work(graph: OperatorGraph) -> Work:
    """Count what `graph` costs: operations, and bytes with and without its intermediates."""
    entries: tuple[Value | Operator, ...] = (*graph.values, *graph.operators)
    sizes = {entry.name: nbytes(entry) for entry in entries}
    costs: dict[str, float] = defaultdict(float)
    flops = traffic = 0.0
    for operator in graph.operators:
        kind = family(operator)
        if kind is None:
            continue
        moved = sizes[operator.name] + sum(sizes.get(name, 0) for name in set(operands(operator)))
        work = flops_of(operator, graph)
        flops += work
        traffic += moved
        # A byte from memory costs a core about as much as eight operations of its vector units.
        costs[kind] += max(work, 8 * moved)
    least = sum(nbytes(value) for value in graph.values) + sum(
        sizes[name] for name in set(graph.outputs)
    )
    families = tuple(sorted(costs, key=lambda kind: -costs[kind]))
    sure_flops, sure_bytes = sure(graph)
    return Work(
        flops=flops,
        bytes=float(least),
        traffic=max(traffic, float(least)),
        families=families,
        sure_flops=sure_flops,
        sure_bytes=sure_bytes,
    )
