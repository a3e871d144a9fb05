"""Operands that an operator's result does not depend on, by what its numbers say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from search.costs.graph import Operator, Ref
from search.costs.trace import operands, operator_name

_Args = tuple[Any, ...]
# Of the positional and the named arguments: the positions that do not count.
_Rule = Callable[[_Args, Mapping[str, Any]], _Args]


def used(operator: Operator) -> list[str]:
    """Return the names of the values that the result of `operator` depends on, in their order."""
    rule = _RULES.get(operator_name(operator))
    unused = rule(operator.args, dict(operator.kwargs)) if rule else ()
    if operator_name(operator) == "softmax" and _is_single(operator):
        unused = (0,)
    kept = tuple(arg for at, arg in enumerate(operator.args) if at not in unused)
    return operands(replace(operator, args=kept))


def _every(condition: bool) -> _Args:
    return (0, 1, 2) if condition else ()


def _same(args: _Args, named: Mapping[str, Any]) -> _Args:
    """Of a difference, a quotient or a comparison of a value with itself."""
    return _every(isinstance(args[0], Ref) and args[0] == args[1] and not named)


def _difference(args: _Args, named: Mapping[str, Any]) -> _Args:
    return _same(args, named) or ((1,) if named.get("alpha") == 0 else ())


def _bounded(args: _Args, _: Mapping[str, Any]) -> _Args:
    """Of a clamp between a number and the same number."""
    bounds = args[1:3]
    fixed = len(bounds) == 2 and all(isinstance(bound, (int, float)) for bound in bounds)
    return _every(fixed and bounds[0] >= bounds[1])


def _added(_: _Args, named: Mapping[str, Any]) -> _Args:
    """Of a product that is added to something, each with a factor."""
    return (*(0,) * (named.get("beta") == 0), *(1, 2) * (named.get("alpha") == 0))


def _is_single(operator: Operator) -> bool:
    """Tell whether a softmax runs along one element: it is one."""
    dim, shape = operator.args[1], operator.shape
    return isinstance(dim, int) and bool(shape) and shape[dim] == 1


_RULES: dict[str, _Rule] = {
    "pow": lambda args, _: _every(args[1] == 0 or args[0] == 1),
    "mul": lambda args, _: _every(0 in args),
    "add": lambda _, named: (1,) if named.get("alpha") == 0 else (),
    "rsub": lambda _, named: (0,) if named.get("alpha") == 0 else (),
    "sub": _difference,
    **dict.fromkeys(("div", "true_divide", "eq", "ne", "lt", "le", "gt", "ge"), _same),
    **dict.fromkeys(("clamp", "hardtanh"), _bounded),
    **dict.fromkeys(("addcmul", "addcdiv"), lambda _, named: (1, 2) * (named.get("value") == 0)),
    **dict.fromkeys(("addmm", "baddbmm"), _added),
}
