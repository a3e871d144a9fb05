"""Which of nvcc's flags a candidate may give: those that change code generation only."""

from __future__ import annotations

import re
from collections.abc import Sequence

from search.languages import Unbuildable
from search.languages.cpp_flags import ALLOWED as CPP_ALLOWED

_TRUTH = "(true|false)"
_ALLOWED = re.compile(
    r"-O[0123]|-w|-lineinfo|--generate-line-info|-restrict|--restrict"
    r"|--?use_fast_math|--?extra-device-vectorization|--?expt-relaxed-constexpr"
    r"|--?(expt-)?extended-lambda|--?default-stream=(legacy|per-thread|null)"
    rf"|--?(ftz|prec-div|prec-sqrt|fmad)={_TRUTH}|--?maxrregcount=\d+"
    r"|(-std|--std)=(c|gnu)\+\+(11|14|17|20)|-D[A-Za-z_]\w*(=[\w.+-]*)?|-U[A-Za-z_]\w*"
    r"|--?(threads|split-compile)=\d+|-t=?\d+|--?diag-suppress=[\d,]+|--?ptxas-options=(?P<ptxas>.*)"
    r"|-Xptxas=(?P<xptxas>.*)|-Xcompiler=(?P<host>.*)|--compiler-options=(?P<compiler>.*)"
)
_PTXAS = re.compile(
    r"-v|--verbose|-O[0-3]|-w|--?warn-(spills|on-spills|lmem-usage|on-local-memory-usage|double-usage)"
    r"|-d(lcm|scm)=(ca|cg|cs|cv|wb|wt)|--def-(load|store)-cache=(ca|cg|cs|cv|wb|wt)"
    rf"|--?maxrregcount=\d+|--?allow-expensive-optimizations={_TRUTH}|--?fmad={_TRUTH}"
    r"|--?(register-usage-level|opt-level)=?\d+|--?disable-optimizer-constants"
)
# Flags whose value is the word after them.
_TAKES_NEXT = {"-Xptxas", "--ptxas-options", "-Xcompiler", "--compiler-options", "-maxrregcount",
               "--maxrregcount", "-std", "--std", "-diag-suppress", "--diag-suppress", "-t", "--threads",
               "-D", "-U"}  # fmt: skip
_PREFIXES = {"-D", "-U"}
_ARCHITECTURE = re.compile(
    r"(--?gpu-architecture|--?arch|--?gpu-code|-code|--?generate-code|-gencode)(=.*)?"
)


def checked(words: Sequence[str], line: int, *, drop_architecture: bool = False) -> tuple[str, ...]:
    """Return the flags one word each.

    Args:
        line: of the candidate, for messages.
        drop_architecture: leave out flags that name an architecture: the device's is used.

    Raises:
        Unbuildable: a flag may reach files or programs, or is not known.
    """
    flags = []
    for word in _joined(words):
        if _ARCHITECTURE.fullmatch(word):
            if drop_architecture:
                continue
            raise Unbuildable(
                f"line {line}: compiler flag {word!r} is not needed: code is compiled for the device at hand"
            )
        found = _ALLOWED.fullmatch(word)
        if found is None or not _inner(found):
            raise Unbuildable(
                f"line {line}: compiler flag {word!r} is not allowed: use flags that only optimise"
            )
        flags.append(word)
    return tuple(flags)


def _joined(words: Sequence[str]) -> list[str]:
    joined: list[str] = []
    rest = iter(words)
    for word in rest:
        if word in _TAKES_NEXT:
            joined.append(word + ("" if word in _PREFIXES else "=") + next(rest, ""))
        elif _ARCHITECTURE.fullmatch(word) and "=" not in word:
            joined.append(f"{word}={next(rest, '')}")
        else:
            joined.append(word)
    return joined


def _inner(found: re.Match[str]) -> bool:
    """Say whether what is handed on to ptxas or to the host compiler is allowed."""
    for group, allowed in (
        ("ptxas", _PTXAS),
        ("xptxas", _PTXAS),
        ("host", CPP_ALLOWED),
        ("compiler", CPP_ALLOWED),
    ):
        value = found[group]
        if value is not None and not all(
            allowed.fullmatch(part) for part in re.split(r"[, ]+", value.strip("'\""))
        ):
            return False
    return True
