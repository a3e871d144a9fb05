"""Which languages the kernels of a source are written in, whatever its task asked for."""

from __future__ import annotations

import ast

from search.languages.cute import imports_cute, kernel_names

_LOADERS = {"load_cpp": "cpp", "load_cuda": "cuda"}


def written_in(source: str) -> tuple[str, ...]:
    """Return the names of the languages of a source's own kernels, in the order of the file.

    Empty where it has none, or is not valid Python.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return ()
    kernels = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.Call))
    placed = [(node.lineno, found) for node in kernels if (found := _language(node))]
    if imports_cute(source) and kernel_names(source):
        placed.append((len(source), "cute"))
    return tuple(dict.fromkeys(name for _, name in sorted(placed)))


def _language(node: ast.FunctionDef | ast.Call) -> str | None:
    """Return what a loader's call compiles, or a decorated function is written in."""
    if isinstance(node, ast.FunctionDef):
        return "triton" if any(map(_is_triton, node.decorator_list)) else None
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name == "load_inline":
        # The third parameter, where no keyword names it.
        device = any(one.arg == "cuda_sources" for one in node.keywords) or len(node.args) > 2
        return "cuda" if device else "cpp"
    return _LOADERS.get(name)


def _is_triton(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    if isinstance(called, ast.Attribute):
        return called.attr == "jit" and getattr(called.value, "id", "") == "triton"
    return getattr(called, "id", "") == "jit"
