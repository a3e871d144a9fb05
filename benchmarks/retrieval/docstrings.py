"""Reference pages from what packages carry: docstrings of Python modules, Doxygen of C headers.

The sources are parsed, never imported, so that a package for hardware that is not here can be read.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator

SHORT = 60  # characters: a docstring below says no more than the name
_DOXYGEN = re.compile(r"/\*\*(.*?)\*/\s*((?:#if[^\n]*\n\s*)?[^;{]*?)[;{]", re.DOTALL)
_NAME = re.compile(r"(\w+)\s*\($")


def python_page(module: str, source: str) -> str:
    """Return a Markdown page of the public functions and classes of a module."""
    tree = ast.parse(source)
    parts = [f"# {module}"]
    about = ast.get_docstring(tree)
    if about and len(about) >= SHORT:
        parts.append(_text(about))
    for name, text in _documented(tree, ""):
        parts.append(f"## {module}.{name}\n\n{_text(text)}")
    return "\n\n".join(parts) + "\n"


def header_page(name: str, source: str) -> str:
    """Return a Markdown page of the functions that a header documents for Doxygen."""
    parts = [f"# {name}"]
    for comment, declaration in _DOXYGEN.findall(source):
        head = declaration.split("(", 1)[0] + "("
        function = _NAME.search(head)
        if "(" in declaration and function and r"\brief" in comment:
            parts.append(f"## {function.group(1)}\n\n{_doxygen(comment)}")
    return "\n\n".join(parts) + "\n"


def _documented(tree: ast.AST, prefix: str) -> Iterator[tuple[str, str]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            text = ast.get_docstring(node)
            if node.name.startswith("_"):
                continue
            if text and len(text) >= SHORT:
                yield f"{prefix}{node.name}{_signature(node)}", text
            if isinstance(node, ast.ClassDef):
                yield from _documented(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.Assign | ast.Expr):
            yield from _added(node, prefix)


def _added(node: ast.Assign | ast.Expr, prefix: str) -> Iterator[tuple[str, str]]:
    """Docstrings that a call adds: ``conv2d = add_docstr(torch.conv2d, r"...")``."""
    call = node.value
    if not (isinstance(call, ast.Call) and len(call.args) > 1):
        return
    if "add_docstr" not in ast.unparse(call.func):
        return
    texts = [part.value for part in ast.walk(call.args[1]) if _is_text(part)]
    name = ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else call.args[0])
    if texts and len(texts[0]) >= SHORT:
        yield f"{prefix}{name}", inspect.cleandoc("".join(texts))


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _signature(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> str:
    if isinstance(node, ast.ClassDef):
        return ""
    names = [one.arg for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    shown = [name for name in names if not name.startswith("_") and name != "self"]
    return f"({', '.join(shown)})"


def _text(docstring: str) -> str:
    # A line that begins with # is a comment in an example, not a heading.
    return re.sub(r"^(\s*)#", r"\1\\#", docstring, flags=re.MULTILINE)


def _doxygen(comment: str) -> str:
    lines = [re.sub(r"^\s*\* ?", "", line) for line in comment.strip().splitlines()]
    kept = [line for line in lines if not re.match(r"\\(sa|note\w+|notefnerr)\b|^:{2}", line)]
    text = "\n".join(kept)
    text = re.sub(r"\\(?:brief|p|e|ref|c|b|note|return|details)\b ?", "", text)
    text = re.sub(r"\\param(?:\[\w+\])? +(\w+)", r"- `\1`", text)
    return re.sub(r"\n{3,}", "\n\n", text.replace("::", "")).strip()
