"""What docstrings say of parameters holds."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ARGS = re.compile(r"^( *)Args:\n((?:\1 +.*\n|\n)*)", re.MULTILINE)
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef


def parameters(node: FUNCTIONS | ast.ClassDef) -> set[str]:
    """Return the parameters of a function, or those that a class is made with."""
    if isinstance(node, ast.ClassDef):
        made = [one for one in node.body if isinstance(one, FUNCTIONS) and one.name == "__init__"]
        fields = {one.target.id for one in node.body if isinstance(one, ast.AnnAssign)}
        return fields.union(*map(parameters, made))
    given = node.args
    named = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    return {one.arg for one in named if one is not None}


def documented(text: str) -> Iterator[str]:
    """Yield the names under ``Args:``."""
    found = ARGS.search(text + "\n")
    for line in found[2].splitlines() if found else ():
        if re.match(rf"{found[1]}    \S", line):
            yield from (name.strip(" *") for name in line.partition(":")[0].split(","))


@pytest.mark.parametrize("package", ["kb", "ingest", "synth", "search"])
def test_every_documented_parameter_exists(package: str) -> None:
    wrong = []
    for path in sorted((ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, FUNCTIONS | ast.ClassDef):
                names = set(documented(ast.get_docstring(node) or ""))
                wrong += [f"{path}: {node.name}: {one}" for one in names - parameters(node)]
    assert wrong == []
