"""Solutions from factors as products with inverses, and products with reflections as products with their matrix.

Of small matrices, which a recipe computes in double precision. An inverse of large ones takes longer, and is less exact.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from search.codegen.ir import Shape
from search.codegen.operators.factors import LARGEST, LU_INVERSE, ORTHOGONAL
from search.codegen.operators.new import new_operator
from search.codegen.operators.pointwise import arguments
from search.costs.graph import Operator, Ref


class _Shapes(Protocol):
    def shape(self, value: Any) -> Shape:
        """Return the shape of a reference, () of what is none."""
        ...


def _from_cholesky(graph: _Shapes, operator: Operator) -> Sequence[Operator] | None:
    values = arguments(operator, "self", "input2", "upper")
    factor, name = values["input2"], operator.name
    shape = graph.shape(factor)
    if len(shape) != len(operator.shape) or shape[-1] > LARGEST:
        return None
    inverse = Ref(f"{name}_inverse")
    upper = bool(values.get("upper", False))
    return (
        new_operator(
            inverse.name, "cholesky_inverse.default", (factor, upper), graph.shape(factor)
        ),
        new_operator(name, "matmul.default", (inverse, values["self"]), operator.shape),
    )


def _from_lu(graph: _Shapes, operator: Operator) -> Sequence[Operator] | None:
    """The inverse of P L U is that of L U with its columns in another order."""
    names = ("self", "LU", "pivots") if operator.target.startswith("lu_") else ("LU", "pivots", "B")
    values = arguments(operator, *names)
    factors, pivots, name = values["LU"], values["pivots"], operator.name
    right = values.get("self", values.get("B"))
    shape = graph.shape(factors)
    if len(shape) != len(operator.shape) or shape[-1] > LARGEST:
        return None
    parts, order, turned, inverse, whole = (
        Ref(f"{name}_{part}") for part in ("factors", "order", "turned", "inverse", "whole")
    )
    made = [
        new_operator(parts.name, "lu_unpack.default", (factors, pivots, False, True), shape),
        new_operator(order.name, "getitem", (parts, 0), shape),
        new_operator(turned.name, "transpose.int", (order, -2, -1), shape),
        new_operator(inverse.name, LU_INVERSE, (factors,), shape, whole=name),
        new_operator(whole.name, "matmul.default", (inverse, turned), shape),
    ]
    if values.get("adjoint", False):
        made.append(new_operator(f"{name}_across", "transpose.int", (whole, -2, -1), shape))
    return (*made, _product(operator, Ref(made[-1].name), right, left=values.get("left", True)))


def _from_matrix(graph: _Shapes, operator: Operator) -> Sequence[Operator] | None:
    """The solution of equations as a product with the inverse of their matrix."""
    values = arguments(operator, "A", "B")
    matrix, right, name, left = values["A"], values["B"], operator.name, values.get("left", True)
    shape, sides = graph.shape(matrix), graph.shape(right)
    inverse = Ref(f"{name}_inverse")
    if shape[-1] > LARGEST or values.get("out") is not None:
        return None
    made = [new_operator(inverse.name, "linalg_inv.default", (matrix,), shape, whole=name)]
    if len(sides) == len(shape):
        return (*made, _product(operator, inverse, right, left=left))
    if sides != shape[:-1] or not left:  # a vector for each matrix, or one for all
        return None
    column, product = Ref(f"{name}_column"), Ref(f"{name}_product")
    return (
        *made,
        new_operator(column.name, "unsqueeze.default", (right, -1), (*sides, 1)),
        new_operator(product.name, "matmul.default", (inverse, column), (*sides, 1)),
        new_operator(name, "squeeze.dim", (product, -1), operator.shape),
    )


def _with_reflections(graph: _Shapes, operator: Operator) -> Sequence[Operator] | None:
    """The orthogonal matrix is made of its vectors and, as one more row of them, their factors."""
    values = arguments(operator, "self", "tau", "other", "left", "transpose")
    vectors, factors, name = values["self"], values["tau"], operator.name
    shape = graph.shape(vectors)
    if (
        len(shape) != len(operator.shape)
        or shape[-2] >= LARGEST
        or graph.shape(factors)[-1:] != shape[-1:]
    ):
        return None  # fewer factors than vectors
    batch, (rows, columns) = shape[:-2], shape[-2:]
    line, both, whole = (Ref(f"{name}_{part}") for part in ("line", "both", "whole"))
    made = [
        new_operator(line.name, "unsqueeze.default", (factors, -2), (*batch, 1, columns)),
        new_operator(both.name, "cat.default", ((vectors, line), -2), (*batch, rows + 1, columns)),
        new_operator(whole.name, ORTHOGONAL, (both,), (*batch, rows, rows), whole=name),
    ]
    if values.get("transpose", False):
        across = (*batch, rows, rows)
        made.append(new_operator(f"{name}_across", "transpose.int", (whole, -2, -1), across))
    left = values.get("left", True)
    return (*made, _product(operator, Ref(made[-1].name), values["other"], left=left))


def _product(operator: Operator, matrix: Ref, other: Any, *, left: bool) -> Operator:
    """Return the product that stands in the place of `operator`."""
    operands = (matrix, other) if left else (other, matrix)
    return new_operator(operator.name, "matmul.default", operands, operator.shape)


REWRITES: Mapping[str, Callable[[Any, Operator], Sequence[Operator] | None]] = {
    "cholesky_solve": _from_cholesky,
    "lu_solve": _from_lu,
    "linalg_lu_solve": _from_lu,
    "linalg_solve": _from_matrix,
    "ormqr": _with_reflections,
}
