"""CuTe DSL: compiled by NVIDIA's own package while the candidate runs (`kb[cute]`)."""

from __future__ import annotations

import re
from importlib.util import find_spec

from search.languages import Unbuildable, Unit
from search.languages.native_parts import NativeParts

_IMPORTS = re.compile(r"^\s*(?:import|from)\s+cutlass\b", re.MULTILINE)
_ERROR = re.compile(r"^(?:error: (?P<told>.*)|(?P<raised>[\w.]*(?:Error|Exception)\b.*))$")
_PLACE = re.compile(r"^--> .*:(\d+)$")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_FIRST_ERRORS = 4
_LONGEST_LINE = 400


class Cute(NativeParts):
    """Explains the messages of NVIDIA's package; CUDA C++ may stand beside its kernels."""

    def units(self, source: str) -> tuple[Unit, ...]:
        """Return the native parts of a candidate.

        Raises:
            Unbuildable: it needs NVIDIA's package, which is not installed.
        """
        if _IMPORTS.search(source) and find_spec("cutlass") is None:
            raise Unbuildable(
                "it imports cutlass, which is not installed here: pip install 'kernel-kb[cute]' "
                "(nvidia-cutlass-dsl), or write it in cuda or triton"
            )
        return super().units(source)

    def explain(self, message: str) -> str:
        """Return the first errors with their lines, without colours and the package's own frames."""
        lines = [line.strip() for line in _COLOURS.sub("", message).splitlines()]
        found: dict[str, None] = {}
        for line, following in zip(lines, [*lines[1:], ""], strict=True):
            error, place = _ERROR.match(line), _PLACE.match(following)
            if error:
                where = f"line {place[1]}: " if place else ""
                found.setdefault(where + (error["told"] or error["raised"]))
        if not found:
            return super().explain("\n".join(lines))
        return "\n".join(line[:_LONGEST_LINE] for line in list(found)[:_FIRST_ERRORS])
