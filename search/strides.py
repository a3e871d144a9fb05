"""Where the elements of a tensor lie in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


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
