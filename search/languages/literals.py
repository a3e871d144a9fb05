"""Reads the arguments of calls in a candidate without running it: literals and module constants."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from search.languages import Unbuildable

_UNKNOWN = object()
LONGEST_SOURCE = 1 << 20  # characters of a candidate, and of what one part of it compiles
LONGEST_FLAGS = 4096  # characters of all flags of a part: one argument of a program is bounded too
_MOST_FOLDED = 1 << 24  # characters and items that may be put together in one candidate


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
        Unbuildable: it is not valid Python, or longer than any kernel.
    """
    if len(source) > LONGEST_SOURCE:
        raise Unbuildable(f"it has {len(source)} characters, {LONGEST_SOURCE} are the most")
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
    reader = _Reader(tree)
    for node in ast.walk(tree):
        name = _called(node) if isinstance(node, ast.Call) else ""
        if isinstance(node, ast.Call) and name in parameters:
            given: dict[str | None, ast.expr] = dict(zip(parameters[name], node.args, strict=False))
            given |= {keyword.arg: keyword.value for keyword in node.keywords}
            read = {key: reader.value(value) for key, value in given.items()}
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


class _Reader:
    """Evaluates literals and the module's names that are bound once, to a literal."""

    def __init__(self, tree: ast.Module) -> None:
        self._bound: dict[str, Any] = {}
        self._left = _MOST_FOLDED
        for node in tree.body:
            if isinstance(node, ast.Assign):
                targets, value = node.targets, self.value(node.value)
            elif isinstance(node, ast.AnnAssign) and node.value is not None:
                targets, value = [node.target], self.value(node.value)
            else:
                continue
            for target in targets:
                if isinstance(target, ast.Name):
                    self._bound[target.id] = _UNKNOWN if target.id in self._bound else value

    def value(self, node: ast.expr) -> Any:
        """Evaluate literals, names of constants, lists and dictionaries of them, and ``+`` of them."""
        match node:
            case ast.Constant():
                return node.value
            case ast.Name():
                return self._bound.get(node.id, _UNKNOWN)
            case ast.List() | ast.Tuple():
                return _all([self.value(item) for item in node.elts])
            case ast.Dict():
                keys = _all([self.value(key) if key else _UNKNOWN for key in node.keys])
                values = _all([self.value(value) for value in node.values])
                known = keys is not _UNKNOWN and values is not _UNKNOWN
                named = known and all(isinstance(key, str) for key in keys)
                return dict(zip(keys, values, strict=True)) if named else _UNKNOWN
            case ast.BinOp(op=ast.Add()):
                return self._sum([self.value(term) for term in _terms(node)])
        return _UNKNOWN

    def _sum(self, values: list[Any]) -> Any:
        kind = type(values[0])
        if kind not in {str, list} or any(type(value) is not kind for value in values):
            return _UNKNOWN
        # Constants that double themselves line by line would fill the memory.
        self._left -= sum(map(len, values))
        if self._left < 0:
            return _UNKNOWN
        return "".join(values) if kind is str else [item for value in values for item in value]


def _terms(node: ast.expr) -> list[ast.expr]:
    """Return the terms of a sum in order; a generated source may have thousands."""
    left, found = [node], []
    while left:
        term = left.pop()
        if isinstance(term, ast.BinOp) and isinstance(term.op, ast.Add):
            left += [term.right, term.left]
        else:
            found.append(term)
    return found


def _all(values: list[Any]) -> Any:
    return _UNKNOWN if any(value is _UNKNOWN for value in values) else values


def check_text(call: Call, *, sources: Sequence[str], flags: Sequence[str]) -> None:
    """See that what a call compiles is text of a bounded length.

    Raises:
        Unbuildable: it is not.
    """
    for what, texts, most in (("source", sources, LONGEST_SOURCE), ("flags", flags, LONGEST_FLAGS)):
        size = sum(map(len, texts))
        if size > most:
            raise Unbuildable(
                f"line {call.line}: {call.name}: {what} of {size} characters, {most} are the most"
            )
        try:
            "".join(texts).encode()
        except UnicodeEncodeError as error:
            raise Unbuildable(
                f"line {call.line}: {call.name}: {what} with half a character (a lone surrogate)"
            ) from error
