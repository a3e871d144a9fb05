"""What the text of a reference tells beside its operators: names, docstrings, loops."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from kb.words import split_words

_IGNORED = frozenset(
    [
        "model",
        "self",
        "forward",
        "init",
        "super",
        "nn",
        "torch",
        "module",
        "functional",
        "parameter",
        "get",
        "inputs",
        "input",
        "output",
        "out",
        "x",
        "y",
        "z",
        "return",
        "tensor",
        "float",
        "dim",
        "size",
        "shape",
        "none",
        "true",
        "false",
        "int",
        "rand",
        "randn",
        "device",
        "dtype",
        "register",
        "buffer",
    ]
)
_GENERATED = re.compile(r"^(?:[a-z]\d*|arg\d*|tmp\d*|t\d+)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """A loop of the reference's forward.

    Attributes:
        state: names that a turn reads from the turn before.
        indexed: a turn takes its own part of a tensor.
        line: where it begins, 1 for the first line.
    """

    state: tuple[str, ...]
    indexed: bool
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceText:
    """What a reference says of itself.

    Attributes:
        words: of its names and docstrings, split and stemmed as the lexical index does.
        told: docstrings and names as a sentence; "" where nothing is told.
        loops: of its methods, except those of constructors.
        calls: names of functions and methods that it calls.
    """

    words: frozenset[str]
    told: str
    loops: tuple[Loop, ...]
    calls: frozenset[str]


def read_text(name: str, source: str) -> ReferenceText:
    """Read a reference's text; one that does not parse tells its task's name alone."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        tree = ast.Module(body=[], type_ignores=[])
    docs = [*_docstrings(tree)]
    names = [one for one in _names(tree) if not _GENERATED.match(one)]
    spoken = [" ".join(doc.split())[:400] for doc in docs]
    own = list(dict.fromkeys(filter(None, (_spaced(one) for one in names))))
    told = ". ".join(filter(None, (_spaced(name), *spoken, ", ".join(own[:24]))))
    text = " ".join((name, *docs, *names))
    words = frozenset(split_words(re.sub(r"[_\W]+", " ", text)))
    return ReferenceText(
        words=words,
        told=told if own or docs else _spaced(name),
        loops=tuple(_loops(tree)),
        calls=frozenset(_calls(tree)),
    )


def _docstrings(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            found = ast.get_docstring(node)
            if found and getattr(node, "name", "") not in {"get_inputs", "get_init_inputs"}:
                yield found


def _names(tree: ast.Module) -> Iterator[str]:
    """Yield the names that the author of a reference chose, in their order."""
    for top in tree.body:
        if isinstance(top, ast.FunctionDef) and top.name.startswith("get_"):
            continue
        for node in ast.walk(top):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                yield node.name
            elif isinstance(node, ast.arg):
                yield node.arg
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                yield node.attr


def _spaced(name: str) -> str:
    """Return a name in words, without those that every reference has."""
    parts = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name).replace("_", " ").split()
    return " ".join(one for one in parts if one.lower() not in _IGNORED and not one.isdigit())


def _calls(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = node.func
            if isinstance(called, ast.Attribute):
                yield called.attr
            elif isinstance(called, ast.Name):
                yield called.id
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            yield "matmul"


def _loops(tree: ast.Module) -> Iterator[Loop]:
    for method in ast.walk(tree):
        if not isinstance(method, ast.FunctionDef) or method.name in {"__init__", "get_inputs"}:
            continue
        for node in ast.walk(method):
            if isinstance(node, ast.For | ast.While):
                yield _loop(node)


def _loop(node: ast.For | ast.While) -> Loop:
    counted = _stored(node.target) if isinstance(node, ast.For) else set()
    stored: set[str] = set()
    first_read: set[str] = set()
    indexed = False
    for statement in node.body:
        for inner in ast.walk(statement):
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Load):
                if inner.id not in stored:
                    first_read.add(inner.id)
            elif isinstance(inner, ast.AugAssign) and isinstance(inner.target, ast.Name):
                first_read.add(inner.target.id)
            elif isinstance(inner, ast.Subscript):
                used = {one.id for one in ast.walk(inner.slice) if isinstance(one, ast.Name)}
                indexed = indexed or bool(used & counted)
        stored |= _stored(statement)
    enumerated = isinstance(node, ast.For) and any(
        isinstance(one, ast.Attribute) and one.attr in {"unbind", "split", "chunk"}
        for one in ast.walk(node.iter)
    )
    summed = {name for statement in node.body for name in _summed(statement)}
    state = tuple(sorted((first_read & stored) - counted - summed))
    return Loop(state=state, indexed=indexed or enumerated, line=node.lineno)


def _stored(node: ast.AST) -> set[str]:
    return {
        one.id
        for one in ast.walk(node)
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
    }


def _summed(statement: ast.stmt) -> set[str]:
    """Return the names that a statement only adds to: a sum over turns is no state that turns depend on."""
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        return {statement.target.id} if isinstance(statement.op, ast.Add) else set()
    if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
        return set()
    name, value = statement.targets[0].id, statement.value
    if not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Add):
        return set()
    sides = (value.left, value.right)
    alone = [one for one in sides if isinstance(one, ast.Name) and one.id == name]
    others = [one for one in sides if one not in alone]
    used = {one.id for other in others for one in ast.walk(other) if isinstance(one, ast.Name)}
    return {name} if len(alone) == 1 and name not in used else set()
