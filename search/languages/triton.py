"""Triton: compiled by its own compiler while the candidate runs; CUDA C++ may stand beside it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from search.languages.native_parts import NativeParts

_PLACE = re.compile(r"^at \d+:\d+:$")
_CARET = re.compile(r"^\s*\^\s*$")
_LOCATED = re.compile(r"^\S*?candidate\.py:(\d+):\d+: (?:fatal )?error: (.*)$")
_PTXAS = re.compile(r"^ptxas .*?(?:error|fatal)\s*:\s*(.*)$")
_TOLD = re.compile(
    r"^(?:out of resource|LLVM ERROR|PassManager::run failed|No valid triton configs).*$"
)
_FIRST_ERRORS = 4
_LONGEST_LINE = 400
_MOST_LINES, _LONGEST_READ = 200, 1000


# What the compilers of kernels raise while a candidate runs.
COMPILER_ERRORS = frozenset({
    "CompilationError", "CompileTimeAssertionFailure", "UnsupportedLanguageConstruct", "PTXASError",
    "OutOfResources", "MLIRCompilationError",
})  # fmt: skip


class Triton(NativeParts):
    """Explains Triton's messages; native parts beside its kernels are those of CUDA C++."""

    def explain(self, message: str) -> str:
        """Return what is wrong, with the line of the kernel where it is."""
        return explained(message) or super().explain(message)


def explained(message: str) -> str:
    """Return what is wrong with a kernel, with its line; "" where the message is not Triton's.

    Triton quotes a kernel from its head down to the fault; of the quotation the last line counts. A
    fault in a function that a kernel calls is quoted once for each of the two. The message comes from
    the candidate's process, so that no more is looked at than an honest one has.
    """
    lines = [line[:_LONGEST_READ] for line in message.splitlines()[:_MOST_LINES]]
    quoted: list[str] = []
    found: dict[str, None] = {}
    for number, line in enumerate(lines):
        stripped = line.strip()
        if _PLACE.match(stripped):
            quoted.append(_quoted(lines[number + 1 :]))
        elif located := _LOCATED.match(stripped):
            found.setdefault(f"line {located[1]}: {located[2]}")
        elif ptxas := _PTXAS.match(stripped):
            found.setdefault(f"ptxas: {ptxas[1]}")
        elif _TOLD.match(stripped):
            found.setdefault(stripped)
    # The innermost call is quoted last, and says why.
    chosen = [*reversed(quoted), *found][:_FIRST_ERRORS]
    return "\n".join(line[:_LONGEST_LINE] for line in chosen)


def _quoted(lines: Sequence[str]) -> str:
    """Return the message under a quotation, with the line of code above the caret."""
    for number, line in enumerate(lines):
        if _CARET.match(line) and number:
            code = lines[number - 1].strip()
            told = next((text.strip() for text in lines[number + 1 :] if text.strip()), "")
            if not told or _PLACE.match(told):
                told = "this call fails"
            return f"{told} in: {code}"
    return next((line.strip() for line in lines if line.strip()), "")
