"""Operators written out as others: an infinity or a NaN may become something else that is right too.

A group norm that scales and shifts its input in one step has inf - inf where one that subtracts the mean first has inf. A
padded convolution that skips the padding has no 0 * inf where one that multiplies the zeros has. Which of them a library
takes is its own affair, and may be another one on another device.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._decomp import core_aten_decompositions, get_decompositions
from torch.nn.functional import pad
from torch.utils._python_dispatch import TorchDispatchMode

_aten = torch.ops.aten
_KEPT = [  # in the set of operators that others are decomposed to
    _aten.native_layer_norm,
    _aten.native_batch_norm,
    _aten._native_batch_norm_legit,
    _aten.grid_sampler_2d,
]
_MOST_ROWS = 64  # of matrices that are inverted or factorised row by row
_DIRECTLY = 2  # of the compute modes of cdist: no product of matrices


class WrittenOut(TorchDispatchMode):
    """Computes operators by torch's own decompositions, convolutions on padded inputs, and distances directly."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._table = {**core_aten_decompositions(), **get_decompositions(_KEPT)}

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        named = dict(kwargs or {})
        if func is _aten._cdist_forward.default:
            one, other, order = args[:3]
            return apart(one, other) if order == 0 else func(one, other, order, _DIRECTLY)
        written = _WRITTEN.get(func) or self._table.get(func)
        if written is not None:
            with self:
                found = written(*args, **named)
            if found is not NotImplemented:
                return found
        return func(*args, **named)


def apart(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return in how many elements the rows of two matrices differ, where infinities do as on the other kind of device.

    Their difference is no number: torch counts it on a GPU, and on a processor the sum is none then.
    """
    differences = one.unsqueeze(-2) - other.unsqueeze(-3)
    if one.is_cuda:
        return differences.abs().ceil().clamp_max(1).sum(-1)
    return (differences != 0).sum(-1).to(one.dtype)


def padded(  # noqa: PLR0913 - as the operator has them
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Any:
    """Return a convolution whose zeros stand in its input: around it, and between where it is transposed."""
    if not transposed and not any(padding):
        return NotImplemented  # nothing is to be written out
    axes = len(stride)
    if transposed:
        spread = x.new_zeros(
            (*x.shape[:2], *((n - 1) * s + 1 for n, s in zip(x.shape[2:], stride, strict=True)))
        )
        places: tuple[Any, ...] = (..., *(slice(None, None, s) for s in stride))
        spread[places] = x
        reach = [
            d * (k - 1) - p for d, k, p in zip(dilation, weight.shape[2:], padding, strict=True)
        ]
        around = [(r, r + more) for r, more in zip(reach, output_padding, strict=True)]
        columns = weight.shape[1]
        weight = weight.view(groups, -1, *weight.shape[1:]).transpose(1, 2)
        weight = weight.reshape(groups * columns, -1, *weight.shape[3:]).flip(
            tuple(range(2, 2 + axes))
        )
        x, stride = spread, (1,) * axes
    else:
        around = [(p, p) for p in padding]
    x = pad(x, [side for pair in reversed(around) for side in pair])
    return torch.convolution(
        x, weight, bias, stride, (0,) * axes, dilation, False, (0,) * axes, groups
    )


def masked(x: torch.Tensor, other: Any, *, alpha: float = 1) -> Any:
    """Return a sum with a mask of zeros and negative infinities as a choice: what is masked is not looked at.

    An infinity or a NaN that such a mask hides would be a NaN as a sum. Attention's kernels choose, its formula adds.
    """
    if not isinstance(other, torch.Tensor) or not other.is_floating_point() or alpha != 1:
        return NotImplemented
    hidden = other == -math.inf
    if not bool(hidden.any()) or not bool((hidden | (other == 0)).all()):
        return NotImplemented
    return torch.where(hidden, -math.inf, x)


def masked_in_place(x: torch.Tensor, other: Any, *, alpha: float = 1) -> Any:
    """Do the same to `x` itself."""
    found = masked(x, other, alpha=alpha)
    return found if found is NotImplemented else x.copy_(found)


def group_norm(  # noqa: PLR0913 - as the operator has them
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    batch: int,
    channels: int,
    inner: int,
    groups: int,
    eps: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return a group norm that subtracts the mean before it scales, with the means and inverse deviations.

    torch's decomposition scales and shifts in one step on a processor, and so does its kernel.
    """
    rows = x.reshape(batch, groups, channels // groups * inner)
    variance, mean = variance_and_mean(rows, [-1], correction=0, keepdim=True)
    inverse = torch.rsqrt(variance + eps)
    found = ((rows - mean) * inverse).view(batch, channels, inner)
    if weight is not None:
        found = found * weight.view(1, channels, 1)
    if bias is not None:
        found = found + bias.view(1, channels, 1)
    return found.view(x.shape), mean.view(batch, groups), inverse.view(batch, groups)


def inverse_from_factor(factor: torch.Tensor, upper: bool = False) -> Any:
    """Return the inverse of a matrix from its Cholesky factor row by row, without a look at the other triangle."""
    size = factor.shape[-1]
    if size > _MOST_ROWS:
        return NotImplemented
    lower = factor.mT if upper else factor
    rows, found = torch.zeros_like(lower), torch.zeros_like(lower)
    for row in range(size):
        products = lower[..., row, :row, None] * rows[..., :row, :row]
        own = rows[..., row, : row + 1]
        own[..., :row] = -torch.where(_triangle(row, factor.device), products, 0.0).sum(-2)
        own[..., row] = 1.0
        own /= lower[..., row, row, None]
        found[..., : row + 1, : row + 1] += own[..., :, None] * own[..., None, :]
    return found


def solution_from_factor(right: torch.Tensor, factor: torch.Tensor, upper: bool = False) -> Any:
    """Return the solution of equations from the Cholesky factor of their matrix, as a product with its inverse."""
    inverse = inverse_from_factor(factor, upper)
    return inverse if inverse is NotImplemented else inverse @ right


def inverse_from_lu(factors: torch.Tensor) -> Any:
    """Return the inverse of the product of two triangles that lie in one matrix, row by row."""
    size = factors.shape[-1]
    if size > _MOST_ROWS:
        return NotImplemented
    found = torch.eye(size, dtype=factors.dtype, device=factors.device)
    found = found.expand_as(factors).clone()
    for row in range(size):
        products = factors[..., row, :row, None] * found[..., :row, :row]
        found[..., row, :row] = -torch.where(_triangle(row, factors.device), products, 0.0).sum(-2)
    for row in reversed(range(size)):
        later = (factors[..., row, row + 1 :, None] * found[..., row + 1 :, :]).sum(-2)
        found[..., row, :] = (found[..., row, :] - later) / factors[..., row, row, None]
    return found


def solution_from_lu(
    factors: torch.Tensor,
    pivots: torch.Tensor,
    right: torch.Tensor,
    *,
    left: bool = True,
    adjoint: bool = False,
) -> Any:
    """Return the solution of equations from an LU factorisation, as a product with the inverse."""
    inverse = inverse_from_lu(factors)
    if inverse is NotImplemented:
        return inverse
    order = torch.lu_unpack(factors, pivots, unpack_data=False)[0]
    whole = inverse @ order.mT
    whole = whole.mT if adjoint else whole
    return whole @ right if left else right @ whole


def old_solution_from_lu(right: torch.Tensor, factors: torch.Tensor, pivots: torch.Tensor) -> Any:
    """Return the same, as `torch.lu_solve` takes its arguments."""
    return solution_from_lu(factors, pivots, right)


def sign_and_log(x: torch.Tensor) -> Any:
    """Return sign and logarithm of determinants by elimination, the largest of a column first, as `torch.slogdet` does.

    With them what is left of the matrix, and places that nobody reads.
    """
    size = x.shape[-1]
    if size > _MOST_ROWS:
        return NotImplemented
    a, sign, logs = x.clone(), x.new_ones(x.shape[:-2]), x.new_zeros(x.shape[:-2])
    for step in range(size):
        down = a[..., step:, step].abs()
        at = torch.where(down.isnan(), -1.0, down).argmax(-1)
        places = (at + step)[..., None, None].expand(*at.shape, 1, size)
        own = a.gather(-2, places)
        a.scatter_(-2, places, a[..., step : step + 1, :].clone())
        pivot = own[..., 0, step]
        sign *= torch.where(at == 0, 1.0, -1.0) * torch.sign(pivot)
        logs += pivot.abs().log()
        less = a[..., step + 1 :, step] / torch.where(pivot == 0, 1.0, pivot)[..., None]
        a[..., step + 1 :, step + 1 :] -= less[..., None] * own[..., step + 1 :]
    return sign, logs, a, torch.zeros(x.shape[:-1], dtype=torch.int32, device=x.device)


def with_reflections(
    vectors: torch.Tensor,
    factors: torch.Tensor,
    other: torch.Tensor,
    left: bool = True,
    transpose: bool = False,
) -> Any:
    """Return a product with the orthogonal matrix that reflections make, as `torch.ormqr` does."""
    rows = vectors.shape[-2]
    if rows > _MOST_ROWS:
        return NotImplemented
    whole = multiplied(vectors, factors, rows)
    whole = whole.mT if transpose else whole
    return whole @ other if left else other @ whole


def reflections(x: torch.Tensor) -> Any:
    """Return Householder's reflections column by column, as `torch.geqrf` does; rows above a column are not looked at."""
    steps = min(x.shape[-2:])
    if steps > _MOST_ROWS:
        return NotImplemented
    a, factors = x.clone(), x.new_zeros(*x.shape[:-2], steps)
    for step in range(steps):
        head, down = a[..., step, step], a[..., step + 1 :, step]
        below = down.square().sum(-1)
        idle = below == 0
        size = torch.sqrt(head * head + below)
        end = torch.where(idle, head, torch.where(head < 0, size, -size))
        factor = torch.where(idle, 0.0, (end - head) / torch.where(idle, 1.0, end))
        down = down / torch.where(idle, 1.0, head - end)[..., None]
        down = torch.where(idle[..., None], 0.0, down)
        turned(a[..., step:, step + 1 :], down, factor)
        a[..., step, step], a[..., step + 1 :, step], factors[..., step] = end, down, factor
    return a, factors


def turned(x: torch.Tensor, down: torch.Tensor, factor: torch.Tensor) -> None:
    """Reflect the columns of `x` in place; the vector is one, then `down`."""
    vector = torch.cat((torch.ones_like(factor)[..., None], down), -1)[..., None]
    x -= vector * (factor[..., None, None] * (vector * x).sum(-2, keepdim=True))


def both_factors(x: torch.Tensor, mode: str = "reduced") -> Any:
    """Return an orthogonal and a triangular factor, from reflections."""
    found = reflections(x)
    if mode != "reduced" or found is NotImplemented:
        return NotImplemented
    a, factors = found
    steps = factors.shape[-1]
    return multiplied(a, factors, steps), a[..., :steps, :].triu()


def multiplied(vectors: torch.Tensor, factors: torch.Tensor, columns: int) -> torch.Tensor:
    """Return the first columns of the matrix that reflections make, from the last to the first."""
    q = torch.eye(vectors.shape[-2], columns, dtype=vectors.dtype, device=vectors.device)
    q = q.expand(*vectors.shape[:-2], -1, -1).clone()
    for step in reversed(range(factors.shape[-1])):
        turned(q[..., step:, step:], vectors[..., step + 1 :, step], factors[..., step])
    return q


def _triangle(size: int, device: torch.device) -> torch.Tensor:
    return torch.ones(size, size, dtype=torch.bool, device=device).tril()


def variance_and_mean(
    x: torch.Tensor,
    dim: Sequence[int] | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return variance and mean, the mean as a sum: a mean that is updated is no number behind an infinity."""
    dims = list(dim) if dim is not None else list(range(x.dim()))
    variance = torch.var(x, dims, correction=correction, keepdim=keepdim)
    return variance, torch.mean(x, dims, keepdim=keepdim)


_WRITTEN: Mapping[Any, Callable[..., Any]] = {
    _aten._linalg_slogdet.default: sign_and_log,
    _aten.add.Tensor: masked,
    _aten.add_.Tensor: masked_in_place,
    _aten.convolution.default: padded,
    _aten.cholesky_inverse.default: inverse_from_factor,
    _aten.cholesky_solve.default: solution_from_factor,
    _aten.geqrf.default: reflections,
    _aten.linalg_lu_solve.default: solution_from_lu,
    _aten.linalg_qr.default: both_factors,
    _aten.lu_solve.default: old_solution_from_lu,
    _aten.native_group_norm.default: group_norm,
    _aten.ormqr.default: with_reflections,
    _aten.var_mean.correction: variance_and_mean,
}
