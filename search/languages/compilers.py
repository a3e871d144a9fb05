"""Tells a compiler's error, raised while a candidate runs, from an error of the candidate's own Python."""

from __future__ import annotations

from search.languages import cute, triton


def compiler_fault(kind: str, message: str) -> str:
    """Return what a compiler found wrong with a kernel, with its lines.

    Args:
        kind: the name of the exception's class.
        message: of the exception.

    Returns:
        One error a line; "" where no compiler of kernels raises that.
    """
    if kind in triton.COMPILER_ERRORS:
        return triton.explained(message)
    return cute.explained(message) if kind in cute.COMPILER_ERRORS else ""
