"""Factorisations of small dense matrices that a recipe computes whole."""

from __future__ import annotations

import math

from search.codegen.ir import IrNode
from search.codegen.operators.pointwise import arguments
from search.costs.graph import Operator

# The kind of each operator, with its arguments by name.
FACTORS = {
    "cholesky": ("cholesky", ("self", "upper")),
    "linalg_cholesky": ("cholesky", ("self", "upper")),
    "cholesky_inverse": ("inverse", ("self", "upper")),
}
LARGEST = 32  # rows or columns; more is the library's work


def factor_sizes(operator: Operator, source: IrNode) -> dict[str, int | str] | None:
    """Return the sizes of a factorisation of matrices, None where no recipe computes it.

    ``rows`` is the number of matrices, ``length`` that of the elements of one.

    Args:
        source: what `operator` reads.
    """
    name = operator.target.split(".", maxsplit=1)[0]
    if name not in FACTORS or operator.dtype != "float32":
        return None
    kind, names = FACTORS[name]
    values = arguments(operator, *names)
    fits = source.usable and source.dtype == "float32" and not source.mask and not source.integer
    if not fits or len(source.shape) < 2 or 0 in source.shape:
        return None
    m, n = source.shape[-2:]
    if max(m, n) > LARGEST:
        return None
    sizes: dict[str, int | str] = {"kind": kind, "upper": int(bool(values.get("upper", False)))}
    sizes |= {"m": m, "n": n, "least": min(m, n)}
    return {**sizes, "rows": math.prod(source.shape[:-2]), "length": m * n, "inner": 1}
