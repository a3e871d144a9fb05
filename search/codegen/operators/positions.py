"""Triangles, diagonals, and masks made of positions: where an element stands says what it is, or whether it is kept."""

from __future__ import annotations

import operator as python
from collections.abc import Mapping
from math import inf
from typing import Any

from search.codegen import expressions as ir
from search.codegen.ir import INTEGERS, IrBuilder, IrNode, Unsupported
from search.codegen.operators.pointwise import COMPARED, VIEWS, Formula, Rule, arguments
from search.costs.graph import Operator, Ref

_EXACT = 2**24  # below it a float32 is every integer
# Operators that make a tensor of ones, and where the value of those that take one stands.
_ONES = {
    "ones": None,
    "ones_like": None,
    "new_ones": None,
    "full": 1,
    "full_like": 1,
    "new_full": 2,
}


def _triangle(*, upper: bool) -> Rule:
    """Of ones nothing is read."""

    def rule(builder: IrBuilder, operator: Operator) -> IrNode:
        values = arguments(operator, "self", "diagonal")
        rank, diagonal = len(operator.shape), values.get("diagonal", 0)
        if rank < 2 or not isinstance(diagonal, int):
            raise Unsupported
        row: ir.Expression = ir.ElementIndex(rank - 2)
        column = ir.ElementIndex(rank - 1)
        row = row + ir.Const(diagonal) if diagonal else row
        kept = column >= row if upper else column <= row
        if _is_of_ones(builder, values["self"]):
            said = kept if operator.dtype == "bool" else ir.number_of(kept)
            return builder.made(said, operator.shape)
        given = builder.operand(values["self"])
        if given.mask:
            return builder.map(lambda x: x & kept, given)
        return builder.map(lambda x: ir.select(kept, x, 0), given)

    return rule


def _is_of_ones(builder: IrBuilder, value: object) -> bool:
    found = builder.operators.get(value.name) if isinstance(value, Ref) else None
    name = found.target.split(".", maxsplit=1)[0] if found is not None else ""
    if found is None or name not in _ONES or found.dtype not in ("float32", "bool"):
        return False
    at = _ONES[name]
    return at is None or (len(found.args) > at and found.args[at] in (1, True))


def _eye(builder: IrBuilder, operator: Operator) -> IrNode:
    if operator.dtype not in ("float32", "bool"):
        raise Unsupported
    on_it = ir.equal(ir.ElementIndex(0), ir.ElementIndex(1))
    return builder.made(on_it if operator.dtype == "bool" else ir.number_of(on_it), operator.shape)


def _positions(builder: IrBuilder, operator: Operator) -> IrNode:
    start = operator.args[0] if len(operator.args) > 1 else 0
    step = operator.args[2] if len(operator.args) > 2 else 1
    if operator.dtype not in INTEGERS or step != 1 or not isinstance(start, int):
        raise Unsupported
    place: ir.Expression = ir.ElementIndex(0)
    place = place + ir.Const(start) if start else place
    return builder.made(place, operator.shape, dtype=operator.dtype)


def _of_positions(name: str, formula: Formula, usual: Rule) -> Rule:
    """Of integers that positions make, and comparisons of one in memory with such: lanes hold the nearest that they can.

    Of others what `usual` says.
    """

    def rule(builder: IrBuilder, operator: Operator) -> IrNode:
        pair = operator.args[:2]
        nodes = [builder.get(value.name) for value in pair if isinstance(value, Ref)]
        if not any(node.integer for node in nodes):
            return usual(builder, operator)
        read = [node for node in nodes if not builder.is_made(node)]
        whole = all(node.integer for node in nodes)  # an integer is compared with no float
        fits = whole and len(read) <= (name in COMPARED) and all(map(_is_readable, read))
        numbers = [value for value in pair if not isinstance(value, Ref)]
        if not fits or len(operator.args) > 2 or operator.kwargs or not all(map(_is_int, numbers)):
            raise Unsupported
        if name not in COMPARED and sum(_greatest(builder, value) for value in pair) >= _EXACT:
            raise Unsupported
        return builder.map(_filled(formula, pair), *nodes, dtype=operator.dtype)

    return rule


def _greatest(builder: IrBuilder, value: Ref | int) -> float:
    """Return what an integer that positions make is at most, whatever its sign."""
    if not isinstance(value, Ref):
        return abs(value)
    node = builder.get(value.name)

    def most(expression: ir.Expression) -> float:
        match expression:
            case ir.ElementIndex(dim=dim):
                return node.shape[dim]
            case ir.Const(value=number):
                return abs(number)
            case ir.Operand(number=number):
                return _greatest(builder, Ref(node.operands[number]))
            case ir.Binary(sign="+" | "-", left=left, right=right):
                return most(left) + most(right)
        return inf

    return most(ir.Operand(number=0) if node.expression is None else node.expression)


def _is_readable(node: IrNode) -> bool:
    return node.integer and node.usable and node.kind in ("value", "view")


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < _EXACT


def _filled(formula: Formula, pair: tuple[Any, ...]) -> Formula:
    def make(*elements: ir.Expression) -> ir.Expression:
        rest = iter(elements)
        return formula(*(next(rest) if isinstance(one, Ref) else ir.Const(one) for one in pair))

    return make


def _shown(usual: Rule) -> Rule:
    """A view of truth values, or of integers."""

    def rule(builder: IrBuilder, operator: Operator) -> IrNode:
        node = builder.get(operator.args[0].name)
        if builder.writes and operator.copies:
            return usual(builder, operator)
        whole = node.integer and (builder.is_made(node) or _is_readable(node))
        if (node.mask and node.usable) or whole:
            return builder.view(node, operator.shape)
        return usual(builder, operator)

    return rule


def _converted(usual: Rule) -> Rule:
    """A number as a truth value: NaN is true. An integer that positions make as a number."""

    def rule(builder: IrBuilder, operator: Operator) -> IrNode:
        if operator.dtype != "bool":
            given = operator.args[0]
            made = builder.get(given.name) if isinstance(given, Ref) else None
            if made is None or not made.integer or operator.dtype != "float32":
                return usual(builder, operator)
            exact = builder.is_made(made) and _greatest(builder, given) < _EXACT
            if not exact or not builder.symbolic:  # lanes in C++ are integers, and stay such
                raise Unsupported
            return builder.map(lambda x: x * ir.Const(1.0), made)
        node = builder.operand(operator.args[0])
        return node if node.mask else builder.map(lambda x: ir.differ(x, ir.Const(0.0)), node)

    return rule


def positions(rules: Mapping[str, Rule]) -> dict[str, Rule]:
    """Return the rules; what they leave is done by `rules`."""
    return {
        "tril": _triangle(upper=False),
        "triu": _triangle(upper=True),
        "eye": _eye,
        "arange": _positions,
        **{name: _of_positions(name, made, rules[name]) for name, made in COMPARED.items()},
        "add": _of_positions("add", python.add, rules["add"]),
        "sub": _of_positions("sub", python.sub, rules["sub"]),
        **{name: _shown(rules[name]) for name in VIEWS},
        **{name: _converted(rules[name]) for name in ("to", "_to_copy", "type_as")},
    }
