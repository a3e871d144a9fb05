"""Reads the arguments of calls in a candidate without running it: literals and module constants."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from search.languages import Unbuildable

_UNKNOWN = object()
_LONGEST = 1 << 22  # characters of a constant that was put together


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call in a candidate.

    Attributes:
        name: of the function, without what it is an attribute of.
        line: where it stands.
        values: its arguments by parameter; None in `unknown` is a starred one.
        unknown: parameters whose argument cannot be known before the file is run.
    """

    name: str
    line: int
    values: dict[str, Any]
    unknown: frozenset[str | None]


def parse(source: str) -> ast.Module:
    """Return the tree of a candidate.

    Raises:
        Unbuildable: it is not valid Python.
    """
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None)
        where = f"line {line}: " if line else ""
        raise Unbuildable(
            f"it is not valid Python: {where}{getattr(error, 'msg', error)}"
        ) from error


def calls(tree: ast.Module, parameters: Mapping[str, Sequence[str]]) -> Iterator[Call]:
    """Yield the calls of the functions that `parameters` names, with their arguments.

    Args:
        parameters: of each function, in order.
    """
    constants = _constants(tree)
    for node in ast.walk(tree):
        name = _called(node) if isinstance(node, ast.Call) else ""
        if isinstance(node, ast.Call) and name in parameters:
            given: dict[str | None, ast.expr] = dict(zip(parameters[name], node.args, strict=False))
            given |= {keyword.arg: keyword.value for keyword in node.keywords}
            read = {key: _value(value, constants) for key, value in given.items()}
            starred = any(isinstance(argument, ast.Starred) for argument in node.args)
            unknown = {key for key, value in read.items() if key is None or value is _UNKNOWN}
            yield Call(
                name=name,
                line=node.lineno,
                values={key: value for key, value in read.items() if key not in unknown and key},
                unknown=frozenset({*unknown, None} if starred else unknown),
            )


def _called(node: ast.Call) -> str:
    if isinstance(node.func, ast.Name):
        return node.func.id
    return node.func.attr if isinstance(node.func, ast.Attribute) else ""


def _constants(tree: ast.Module) -> dict[str, Any]:
    """Return the module's names that are bound once, to a literal."""
    bound: dict[str, Any] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign):
            targets, value = node.targets, _value(node.value, bound)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            targets, value = [node.target], _value(node.value, bound)
        else:
            continue
        for target in targets:
            if isinstance(target, ast.Name):
                bound[target.id] = _UNKNOWN if target.id in bound else value
    return bound


def _value(node: ast.expr, constants: dict[str, Any]) -> Any:
    """Evaluate literals, names of constants, lists and dictionaries of them, and ``+`` of them."""
    match node:
        case ast.Constant():
            return node.value
        case ast.Name():
            return constants.get(node.id, _UNKNOWN)
        case ast.List() | ast.Tuple():
            return _all([_value(item, constants) for item in node.elts])
        case ast.Dict():
            keys = _all([_value(key, constants) if key else _UNKNOWN for key in node.keys])
            values = _all([_value(value, constants) for value in node.values])
            known = keys is not _UNKNOWN and values is not _UNKNOWN
            named = known and all(isinstance(key, str) for key in keys)
            return dict(zip(keys, values, strict=True)) if named else _UNKNOWN
        case ast.BinOp(op=ast.Add()):
            return _sum(_value(node.left, constants), _value(node.right, constants))
    return _UNKNOWN


def _sum(left: Any, right: Any) -> Any:
    if type(left) is not type(right) or not isinstance(left, str | list):
        return _UNKNOWN
    # A constant that doubles itself line by line would fill the memory.
    return left + right if len(left) + len(right) <= _LONGEST else _UNKNOWN


def _all(values: list[Any]) -> Any:
    return _UNKNOWN if any(value is _UNKNOWN for value in values) else values
