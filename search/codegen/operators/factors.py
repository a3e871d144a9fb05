"""Factorisations of small dense matrices that a recipe computes whole."""

from __future__ import annotations

import math
from collections.abc import Sequence

from search.codegen.ir import IrNode
from search.codegen.operators.pointwise import arguments
from search.costs.graph import Operator

# The inverse of a product whose two triangles lie in one matrix, as `torch.linalg.lu_factor` leaves them; and the matrix
# that reflections multiply with, of their vectors as `torch.geqrf` leaves them, with the factors as one more row.
LU_INVERSE, ORTHOGONAL = "recipe.lu_inverse", "recipe.orthogonal"
# The kind of each operator, with its arguments by name.
FACTORS = {
    "cholesky": ("cholesky", ("self", "upper")),
    "linalg_cholesky": ("cholesky", ("self", "upper")),
    "cholesky_inverse": ("inverse", ("self", "upper")),
    "qr": ("qr", ("self", "some")),
    "linalg_qr": ("qr", ("self", "mode")),
    "geqrf": ("reflectors", ("self",)),
    LU_INVERSE: ("lu inverse", ("self",)),
    ORTHOGONAL: ("orthogonal", ("self",)),
    "inverse": ("matrix inverse", ("self",)),
    "linalg_inv": ("matrix inverse", ("self",)),
    "det": ("determinant", ("self",)),
    "linalg_det": ("determinant", ("self",)),
    "logdet": ("log determinant", ("self",)),
    "slogdet": ("sign and log", ("self",)),
    "linalg_slogdet": ("sign and log", ("self",)),
    "svd": ("singular", ("self", "some", "compute_uv")),
    "linalg_svd": ("singular", ("A", "full_matrices")),
    "linalg_svdvals": ("singular values", ("A",)),
    "pinverse": ("pseudo inverse", ("self", "rcond")),
}
_SEVERAL = {"qr", "reflectors", "sign and log", "singular"}  # kinds of two results, or three
_SMALLEST_SHARE = 1e-12  # of the largest singular value: what is less is rounding
LARGEST = 32  # rows or columns; more is the library's work


def factor_name(target: str) -> str:
    """Return the name of an operator in `FACTORS`: without its overload where it is the framework's."""
    return target if target in FACTORS else target.split(".", maxsplit=1)[0]


def factor_sizes(
    operator: Operator, source: IrNode, taken: Sequence[int]
) -> dict[str, int | str] | None:
    """Return the sizes of a factorisation of matrices, None where no recipe computes it.

    ``rows`` is the number of matrices, ``length`` that of the elements of one. ``first``, ``second`` and ``third`` are the
    numbers of these results among those that are wanted, -1 of one that is not. ``cut``: a singular value counts as zero
    below so many times the largest.

    Args:
        source: what `operator` reads.
        taken: the results that are wanted, of an operator that has several, in the order in which they are written.
    """
    name = factor_name(operator.target)
    if name not in FACTORS or operator.dtype != "float32":
        return None
    kind, names = FACTORS[name]
    values = arguments(operator, *names)
    whole = values.get("some", True) and values.get("mode", "reduced") == "reduced"
    whole = whole and values.get("compute_uv", True)
    once = len({*taken}) == len(taken) > 0 if kind in _SEVERAL else not taken
    if not whole or not once:
        return None
    fits = source.usable and source.dtype == "float32" and not source.mask and not source.integer
    if not fits or len(source.shape) < 2 or 0 in source.shape:
        return None
    m, n = source.shape[-2:]
    if max(m, n) > LARGEST or (
        name == "linalg_svd" and m != n and values.get("full_matrices", True)
    ):
        return None
    sizes: dict[str, int | str] = {"kind": kind, "upper": int(bool(values.get("upper", False)))}
    sizes |= {"m": m, "n": n, "least": min(m, n), "rows_of_right": int(name == "linalg_svd")}
    sizes["cut"] = repr(max(float(values.get("rcond", 0.0)), _SMALLEST_SHARE))
    for at, result in enumerate(("first", "second", "third")):
        sizes[result] = taken.index(at) if at in taken else -1
    return {**sizes, "rows": math.prod(source.shape[:-2]), "length": m * n, "inner": 1}
