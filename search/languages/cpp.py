"""C++ with OpenMP through `kb.native.load_cpp`."""

from __future__ import annotations

import ast
import re
import shlex
import shutil
from collections.abc import Sequence

from kb.errors import ToolchainError
from kb.native import BASE_FLAGS, native_key
from search.languages import Unbuildable, Unit

# Flags that change code generation only: nothing that reads or writes another file.
_ALLOWED = re.compile(
    r"-O[0123s]|-Ofast|-g0"
    r"|-f(no-)?(fast-math|unroll-loops|unroll-all-loops|tree-vectorize|strict-aliasing|math-errno|trapping-math"
    r"|finite-math-only|associative-math|reciprocal-math|signed-zeros|unsafe-math-optimizations|exceptions|rtti"
    r"|peel-loops|split-loops|prefetch-loop-arrays|tree-loop-distribution|ipa-pta|omit-frame-pointer|inline"
    r"|gcse|schedule-insns2?|modulo-sched|openmp-simd|wrapv|rounding-math|signaling-nans)"
    r"|-ffp-contract=(fast|off|on)|-fvect-cost-model=[a-z-]+|-fsimd-cost-model=[a-z-]+"
    r"|-m(no-)?(avx2?|avx512[a-z0-9]*|fma|f16c|bmi2?|sse4\.[12]|avxvnni|prefer-avx128)"
    r"|-mprefer-vector-width=(128|256|512|none)|-mtune=[a-z0-9-]+|-march=native|-mrecip(=[a-z!,]+)?"
    r"|-std=(gnu|c)\+\+(14|17|20|2a)|-fopenmp|-fPIC|-shared|-Wall|-w|-D[A-Za-z_]\w*(=[\w.+-]*)?"
    r"|--param(=max-[a-z-]+=\d+)?|max-[a-z-]+=\d+|-fno-plt|-fvisibility=(hidden|default)|-falign-(loops|functions)(=\d+)?"
)
_FIRST_ERRORS = 4
_NOTE = re.compile(r"^(?:\S*kernel\.cpp):(\d+):(\d+): (fatal error|error): (.*)$")


class Cpp:
    """Compiles the sources of `load_cpp` calls with g++."""

    def units(self, source: str) -> tuple[Unit, ...]:
        """Return what each ``load_cpp`` call with constant arguments compiles."""
        try:
            tree = ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            line = getattr(error, "lineno", None)
            where = f"line {line}: " if line else ""
            raise Unbuildable(
                f"it is not valid Python: {where}{getattr(error, 'msg', error)}"
            ) from error
        constants = _constants(tree)
        found: dict[str, Unit] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and _called(node) == "load_cpp":
                unit = _unit(node, constants)
                found.setdefault(unit.key, unit)
        return tuple(found.values())

    def command(self, unit: Unit, text: str, library: str) -> Sequence[str]:
        """Return g++'s arguments.

        Raises:
            ToolchainError: there is no g++.
        """
        compiler = shutil.which("g++")
        if compiler is None:
            raise ToolchainError(
                "the language cpp needs g++, none is on PATH: install it, e.g. apt install g++"
            )
        return (compiler, *BASE_FLAGS, *unit.flags, "-fmax-errors=4", "-fdiagnostics-color=never",
                "-fno-diagnostics-show-caret", text, "-o", library)  # fmt: skip

    def explain(self, message: str) -> str:
        """Return the first errors, one line each; the whole message's head where there is none."""
        errors = []
        for line in message.splitlines():
            matched = _NOTE.match(line)
            if matched:
                errors.append(f"line {matched[1]}, column {matched[2]}: {matched[4]}")
            elif "undefined reference" in line or line.startswith(("cc1plus:", "collect2:")):
                errors.append(line.strip())
        chosen = errors[:_FIRST_ERRORS] or message.strip().splitlines()[:6]
        return "\n".join(line[:400] for line in chosen)


def _called(node: ast.Call) -> str:
    if isinstance(node.func, ast.Name):
        return node.func.id
    return node.func.attr if isinstance(node.func, ast.Attribute) else ""


def _constants(tree: ast.Module) -> dict[str, str]:
    """Return the module's names that are bound once, to a string."""
    bound: dict[str, str | None] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign):
            targets, value = node.targets, _text(node.value, bound)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            targets, value = [node.target], _text(node.value, bound)
        else:
            continue
        for target in targets:
            if isinstance(target, ast.Name):
                bound[target.id] = None if target.id in bound else value
    return {name: value for name, value in bound.items() if value is not None}


def _text(node: ast.expr, constants: dict[str, str] | dict[str, str | None]) -> str | None:
    """Evaluate a string expression: literals, names of constants, and ``+`` of them."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.Name):
        return constants.get(node.id)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _text(node.left, constants), _text(node.right, constants)
        return None if left is None or right is None else left + right
    return None


def _unit(node: ast.Call, constants: dict[str, str]) -> Unit:
    given = dict(zip(("source", "flags"), node.args, strict=False))
    given |= {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
    texts = {name: _text(value, constants) for name, value in given.items()}
    if texts.get("source") is None or texts.get("flags", "") is None:
        raise Unbuildable(
            f"line {node.lineno}: load_cpp takes literal strings or constants of the module: it is compiled before "
            "the file is run"
        )
    source, flags = str(texts["source"]), texts.get("flags") or ""
    try:
        words = tuple(shlex.split(flags))
    except ValueError as error:
        raise Unbuildable(f"line {node.lineno}: compiler flags {flags!r}: {error}") from error
    for word in words:
        if not _ALLOWED.fullmatch(word):
            raise Unbuildable(
                f"line {node.lineno}: compiler flag {word!r} is not allowed: use flags that only optimise"
            )
    return Unit(key=native_key(source, flags), source=source, flags=words, line=node.lineno)
