"""Operators that write into what they read, as ones that do not: the compiler fuses those with what is before them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from search.codegen.ir import refs
from search.codegen.lower import RULES, is_view, packet
from search.costs.graph import Operator, OperatorGraph, Ref
from search.costs.trace import VIEWS


def out_of_place(graph: OperatorGraph) -> OperatorGraph:
    """Return `graph` with every elementwise operator that writes into another's result out of place.

    One stays as it is where what it writes into has another name: a view, what is viewed, or what another one
    has written into.
    """
    made = {one.name: one for one in graph.operators}
    viewed = {
        ref.name
        for one in graph.operators
        if _is_alias(one)
        for ref in refs((one.args, one.kwargs))
    }
    stayed: set[str] = set()
    renamed: dict[str, str] = {}
    found: list[Operator] = []
    for operator in graph.operators:
        now = replace(
            operator,
            args=_renamed(operator.args, renamed),
            kwargs=_renamed(operator.kwargs, renamed),
        )
        name = packet(operator.target)
        first = operator.args[0] if operator.args else None
        source = made.get(first.name) if isinstance(first, Ref) else None
        writes = name.endswith("_") and not name.endswith("__") and name[:-1] in RULES
        named = source is None or _is_alias(source) or source.name in viewed | stayed
        if writes and source is not None and not named:
            end = operator.target.removeprefix(name)
            now = replace(now, target=f"{name[:-1]}{end}")
            renamed[source.name] = operator.name
            renamed |= {old: operator.name for old, new in renamed.items() if new == source.name}
        elif name.endswith("_"):
            stayed.add(operator.name)
        found.append(now)
    outputs = tuple(renamed.get(name, name) for name in graph.outputs)
    return replace(graph, operators=tuple(found), outputs=outputs)


def _is_alias(operator: Operator) -> bool:
    """Say whether a result may be its argument's memory."""
    return is_view(operator) or packet(operator.target) in VIEWS


def _renamed(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, Ref):
        return Ref(names.get(value.name, value.name))
    if isinstance(value, tuple):
        return tuple(_renamed(item, names) for item in value)
    return value
