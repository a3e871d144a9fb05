"""The functions that a file of kernels calls, from the prelude."""

from __future__ import annotations

import ast
from functools import cache

from kb.config import shipped_docs


@cache
def _entries() -> tuple[tuple[str, str, frozenset[str]], ...]:
    """Return every definition of the prelude: its name, its text, and the names that it mentions."""
    text = (shipped_docs() / "recipes" / "prelude_triton.py").read_text(encoding="utf-8")
    found = []
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef):
            name = node.name
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
        else:
            continue
        lines = text.split("\n")
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
        body = "\n".join(lines[first - 1 : node.end_lineno])
        found.append((name, body, mentioned(body)))
    return tuple(found)


def mentioned(text: str) -> frozenset[str]:
    """Return the plain names that a Python text mentions."""
    return frozenset(node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name))


def needed(text: str) -> list[str]:
    """Return the prelude's definitions that `text` calls, directly or not, in their order."""
    entries = _entries()
    names = {name for name, _, _ in entries}
    known = {name: calls & names for name, _, calls in entries}
    wanted: set[str] = set()
    pending = sorted(mentioned(text) & names)
    while pending:
        name = pending.pop()
        if name not in wanted:
            wanted.add(name)
            pending.extend(known[name])
    return [body for name, body, _ in entries if name in wanted]


@cache
def cuda_prelude() -> str:
    """Return the C++ that every CUDA kernel starts with."""
    return (shipped_docs() / "recipes" / "prelude_cuda.hpp").read_text(encoding="utf-8").strip()
