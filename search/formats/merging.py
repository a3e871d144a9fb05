"""A program of several files as one, with what two of its functions need and nothing else."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from kb.errors import TaskError

_ASSIGNING = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.If, ast.Try, ast.For, ast.With)


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """Statements in an order in which they can run.

    Attributes:
        module: with no import of a file that was merged.
        needs: of each name that a statement of the module gives, the names that it uses.
    """

    module: ast.Module
    needs: Mapping[str, frozenset[str]]

    def reach(self, roots: Iterable[str]) -> frozenset[str]:
        """Return the names that `roots` need, themselves among them."""
        found: set[str] = set()
        waiting = list(roots)
        while waiting:
            name = waiting.pop()
            if name not in found and name in self.needs:
                found.add(name)
                waiting += self.needs[name]
        return frozenset(found)

    def text(self, names: frozenset[str]) -> list[str]:
        """Return the statements that give one of `names`, and those that set an attribute of one."""
        kept = [one for one in self.module.body if _given(one) & names or _sets(one, names)]
        texts = (ast.unparse(one) for one in kept)
        return [text for text in texts if text != "import torch"]  # every program begins with it

    def function(self, name: str) -> ast.FunctionDef | None:
        """Return the function of that name, the last where there are several."""
        found = [
            one for one in self.module.body if isinstance(one, ast.FunctionDef) and one.name == name
        ]
        return found[-1] if found else None


def merge(first: str, files: Mapping[str, str], where: Path) -> Merged:
    """Merge a module with those of its imports that are among `files`.

    Args:
        first: name of the module, a key of `files`.
        files: texts by module.

    Raises:
        TaskError: a file is not Python, or is imported as a module.
    """
    body: list[ast.stmt] = []
    _add(first, files, where, body, set())
    module = ast.Module(body=body, type_ignores=[])
    needs: dict[str, set[str]] = {}
    for statement in body:
        used = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
        for name in _given(statement):
            needs.setdefault(name, set()).update(used)
    return Merged(module=module, needs={name: frozenset(used) for name, used in needs.items()})


def _add(
    name: str, files: Mapping[str, str], where: Path, body: list[ast.stmt], done: set[str]
) -> None:
    if name in done:
        return
    done.add(name)
    try:
        tree = ast.parse(files[name])
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise TaskError(f"{where}: {name}.py is not Python: {error}") from error
    for statement in tree.body:
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                if alias.name.partition(".")[0] in files:
                    raise TaskError(
                        f"{where}: {name}.py: expected 'from {alias.name} import …' of a file of the task, "
                        f"found 'import {alias.name}': write it that way"
                    )
        local = isinstance(statement, ast.ImportFrom) and _local(statement, files)
        if isinstance(statement, ast.ImportFrom) and local:
            _add(local, files, where, body, done)
            body += [_alias(one) for one in statement.names if one.asname]
        elif not (isinstance(statement, ast.ImportFrom) and statement.module == "__future__"):
            body.append(statement)


def _local(statement: ast.ImportFrom, files: Mapping[str, str]) -> str:
    name = statement.module or ""
    return name if name in files else ""


def _alias(one: ast.alias) -> ast.stmt:
    return ast.parse(f"{one.asname} = {one.name}").body[0]


def _given(statement: ast.stmt) -> frozenset[str]:
    """Return the names that a statement of a module gives."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return frozenset({statement.name})
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return frozenset((one.asname or one.name).partition(".")[0] for one in statement.names)
    if isinstance(statement, _ASSIGNING):
        return frozenset(
            node.id
            for node in ast.walk(statement)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        )
    return frozenset()


def _sets(statement: ast.stmt, names: frozenset[str]) -> bool:
    """Say whether a statement sets an attribute or an item of one of `names`, as switches of torch are."""
    if not isinstance(statement, ast.Assign):
        return False
    target: ast.expr = statement.targets[0]
    if isinstance(target, ast.Name):
        return False
    while isinstance(target, ast.Attribute | ast.Subscript):
        target = target.value
    return isinstance(target, ast.Name) and target.id in names
