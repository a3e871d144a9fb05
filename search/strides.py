"""Where the elements of a tensor lie in memory, and what layout an answer has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch


def contiguous(shape: Iterable[int]) -> tuple[int, ...]:
    """Return the strides of a tensor whose elements stand in order."""
    strides, step = [], 1
    for size in reversed(tuple(shape)):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def is_dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Say whether elements of these strides fill their memory without gaps or overlaps."""
    step = 1
    for stride, size in sorted(zip(strides, shape, strict=True)):
        if size != 1:
            if stride != step:
                return False
            step *= size
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorLayout:
    """Shape, strides and type of a tensor."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype

    @classmethod
    def of(cls, tensor: torch.Tensor) -> TensorLayout:
        """Return the layout of `tensor`; overlapping or gappy memory becomes contiguous."""
        dense = tensor if is_dense(tensor.shape, tensor.stride()) else tensor.contiguous()
        return cls(shape=tuple(tensor.shape), strides=tuple(dense.stride()), dtype=tensor.dtype)

    @property
    def elements(self) -> int:
        """How many elements it has."""
        return torch.Size(self.shape).numel()

    @property
    def nbytes(self) -> int:
        """Bytes that it occupies."""
        return self.elements * self.dtype.itemsize

    @property
    def contiguous(self) -> tuple[int, ...]:
        """Strides that place the elements one after the other."""
        strides = [1]
        for size in reversed(self.shape[1:]):
            strides.append(strides[-1] * max(size, 1))
        return tuple(reversed(strides)) if self.shape else ()
