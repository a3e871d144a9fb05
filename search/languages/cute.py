"""CuTe DSL: compiled by NVIDIA's own package while the candidate runs (`kb[cute]`)."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping
from importlib.util import find_spec
from itertools import pairwise

from search.languages import Unbuildable, Unit
from search.languages.native_parts import NativeParts

# What its package raises while it compiles; what a launch raises on a device is another.
COMPILER_ERRORS = frozenset({
    "DSLUserCodeError", "DSLUserCodeRuntimeError", "DSLUserCodeTypeError", "DSLRuntimeError", "DSLNotImplemented",
    "DSLOperationBuildError", "DSLAstPreprocessorError", "CompilerDiagnosticError",
})  # fmt: skip
MISSING = (
    "it imports cutlass, which is not installed here: pip install 'kernel-kb[cute]' "
    "(nvidia-cutlass-dsl), or write it in cuda or triton"
)
_IMPORTS = re.compile(r"^[^\S\n]*(?:import|from)[^\S\n]+cutlass\b", re.MULTILINE)
_ERROR = re.compile(
    r"^(?:error(?:\[\w+\])?: (?P<told>.*)|(?P<raised>[\w.]*(?:Error|Exception)\b.*))$"
)
_PLACE = re.compile(r"^--> .*:(\d+)$")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_SYMBOL = "kernel_cutlass_"  # what the package puts before the function's name, arguments after it
_FIRST_ERRORS = 4
_LONGEST_LINE = 400
_MOST_LINES, _LONGEST_READ = 200, 1000  # of a message that the candidate's process told


class Cute(NativeParts):
    """Explains the messages of NVIDIA's package; CUDA C++ may stand beside its kernels."""

    def units(self, source: str) -> tuple[Unit, ...]:
        """Return the native parts of a candidate.

        Raises:
            Unbuildable: it needs NVIDIA's package, which is not installed.
        """
        if imports_cute(source) and not is_installed():
            raise Unbuildable(MISSING)
        return super().units(source)

    def explain(self, message: str) -> str:
        """Return the first errors with their lines, without colours and the package's own frames."""
        return explained(message) or super().explain(_COLOURS.sub("", message))


def imports_cute(source: str) -> bool:
    """Say whether a candidate imports NVIDIA's package."""
    return bool(_IMPORTS.search(source))


def is_installed() -> bool:
    """Say whether NVIDIA's package can be imported here; it is not imported."""
    return find_spec("cutlass") is not None


def kernel_names(source: str) -> frozenset[str]:
    """Return the functions that a candidate's own text declares as kernels (``@cute.kernel``)."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return frozenset()
    return frozenset(
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and any(map(_is_kernel, node.decorator_list))
    )


def own_kernel(symbol: str, names: Collection[str]) -> str | None:
    """Return which of the candidate's kernels a symbol of machine code is, None where it is none."""
    found = [name for name in names if f"{symbol}_".startswith(f"{_SYMBOL}{name}_")]
    return max(found, key=len, default=None)


def own_symbols(told: object, names: Collection[str]) -> frozenset[str]:
    """Return those of a profile's names that are the candidate's kernels in CuTe DSL.

    No judge compiles these kernels, so that they are known by what ran: a symbol begins with the
    function that the candidate's own text declares, which no library's kernel does.
    """
    given = told.get("names") if isinstance(told, Mapping) else None
    symbols = (name for name in given if isinstance(name, str)) if isinstance(given, list) else ()
    return frozenset(symbol for symbol in symbols if own_kernel(symbol, names))


def package_folders() -> tuple[str, ...]:
    """Return the folders that NVIDIA's package and what it imports are in, wherever that is."""
    specs = (find_spec(name) for name in ("cutlass", "nvidia_cutlass_dsl", "cuda"))
    places = (spec.submodule_search_locations for spec in specs if spec is not None)
    return tuple(str(path) for found in places for path in found or ())


def explained(message: str) -> str:
    """Return what is wrong with a kernel, with its line; "" where the message is not the package's."""
    message = _COLOURS.sub("", message)
    lines = [line[:_LONGEST_READ].strip() for line in message.splitlines()[:_MOST_LINES]]
    found: dict[str, None] = {}
    for line, following in pairwise([*lines, ""]):
        error, place = _ERROR.match(line), _PLACE.match(following)
        if error:
            where = f"line {place[1]}: " if place else ""
            found.setdefault(where + (error["told"] or error["raised"]))
    return "\n".join(line[:_LONGEST_LINE] for line in list(found)[:_FIRST_ERRORS])


def _is_kernel(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    return name == "kernel"
