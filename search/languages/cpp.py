"""C++ with OpenMP through `kb.native.load_cpp`."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Sequence

from kb.errors import ToolchainError
from kb.runtime.cpp import BASE_FLAGS, native_key, torch_words
from search.languages import Unbuildable, Unit, distinct
from search.languages.cpp_flags import ALLOWED
from search.languages.literals import Call, calls, check_text, parse

_FIRST_ERRORS = 4
_NOTE = re.compile(r"^(?:\S*kernel\.cpp):(\d+):(\d+): (fatal error|error): (.*)$")


class Cpp:
    """Compiles the sources of `load_cpp` calls with g++."""

    def units(self, source: str) -> tuple[Unit, ...]:
        """Return what each ``load_cpp`` call with constant arguments compiles."""
        return distinct(map(_unit, calls(parse(source), {"load_cpp": ("source", "flags")})))

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
                "-fno-diagnostics-show-caret", text, "-o", library,
                *torch_words(unit.source))  # fmt: skip

    def readable(self) -> tuple[str, ...]:
        """Return nothing: g++ and its headers are the system's."""
        return ()

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


def _unit(call: Call) -> Unit:
    source, flags = call.values.get("source"), call.values.get("flags", "")
    if call.unknown or not isinstance(source, str) or not isinstance(flags, str):
        raise Unbuildable(
            f"line {call.line}: load_cpp takes literal strings or constants of the module: it is compiled before "
            "the file is run"
        )
    check_text(call, sources=(source,), flags=(flags,))
    try:
        words = tuple(shlex.split(flags))
    except ValueError as error:
        raise Unbuildable(f"line {call.line}: compiler flags {flags!r}: {error}") from error
    for word in words:
        if not ALLOWED.fullmatch(word):
            raise Unbuildable(
                f"line {call.line}: compiler flag {word!r} is not allowed: use flags that only optimise"
            )
    return Unit(key=native_key(source, flags), source=source, flags=words, line=call.line)
