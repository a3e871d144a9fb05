"""Which names of modules a candidate uses that are not there, and what there is in their place."""

from __future__ import annotations

import ast
import difflib
import linecache
import re
import sys
from importlib.machinery import PathFinder
from types import ModuleType
from typing import Any

_SAYS = re.compile(r"has no attribute|cannot import name")
_MOST = 12  # names that are told
_NEAR = 3  # others that are told for each


def missing_names(message: str, file: str) -> str:
    """Return a line that lists all names that a program's modules lack, where a message says so of one.

    Python ends at the first such name, and so does a compiler that reads Python. An author who writes for a package
    of another version has several wrong, and would learn of one with each attempt.

    Args:
        message: of what was raised.
        file: the program's name, under which its lines are known.

    Returns:
        "" where the message is about something else, or nothing is missing. Only modules that are imported are read.
    """
    if not _SAYS.search(message):
        return ""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    imported: dict[str, Any] = {}
    lacking: dict[str, ModuleType] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.name if alias.asname else alias.name.split(".")[0]
                imported[alias.asname or name] = sys.modules.get(name)
        elif isinstance(node, ast.ImportFrom) and node.module in sys.modules and not node.level:
            module = sys.modules[node.module]
            for alias in node.names:
                there, imported[alias.asname or alias.name] = _look(module, alias.name)
                if not there and alias.name != "*" and not _is_part(module, alias.name):
                    lacking[f"{node.module}.{alias.name}"] = module
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            lacking |= _missing(node, imported)
    told = [f"{name}{_near(name, module)}" for name, module in list(lacking.items())[:_MOST]]
    return f"not there, of all that it names: {', '.join(told)}" if told else ""


def _missing(node: ast.Attribute, imported: dict[str, Any]) -> dict[str, ModuleType]:
    """Return the name that an attribute of a module stands for, where the module lacks it, and the module."""
    names: list[str] = []
    root: ast.expr = node
    while isinstance(root, ast.Attribute):
        names.insert(0, root.attr)
        root = root.value
    if not isinstance(root, ast.Name):
        return {}
    found, path = imported.get(root.id), root.id
    for name in names:
        path = f"{path}.{name}"
        if not isinstance(found, ModuleType):
            return {}
        there, inner = _look(found, name)
        if not there:
            return {path: found}
        found = inner
    return {}


def _look(module: ModuleType, name: str) -> tuple[bool, Any]:
    """Return whether a module has a name, and what it is; of what it makes when it is asked and cannot make, None."""
    try:
        return True, getattr(module, name)
    except AttributeError:
        return False, None
    except ImportError:
        return True, None


def _is_part(package: ModuleType, name: str) -> bool:
    places = getattr(package, "__path__", None)
    return bool(places) and PathFinder.find_spec(f"{package.__name__}.{name}", places) is not None


def _near(name: str, module: ModuleType) -> str:
    wanted = name.rpartition(".")[2]
    there = [one for one in dir(module) if not one.startswith("_")]
    near = difflib.get_close_matches(wanted, there, n=_NEAR, cutoff=0.6)
    near += [one for one in there if wanted in one and one not in near][: _NEAR - len(near)]
    return f" (there is {', '.join(near)})" if near else ""
