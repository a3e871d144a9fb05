"""Transposed convolutions in float64 as products: a GPU's library has no fast kernels for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_BYTES = 1 << 28  # of one product before it is added


class TransposedProducts(TorchDispatchMode):
    """Computes transposed convolutions in float64 element by element of the kernel.

    The truth of one problem of KernelBench took 85 s on an H100 without it (level 2, 13).

    Args:
        device: kind of device where it does so.
    """

    def __init__(self, device: str = "cuda") -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._device = device

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func is torch.ops.aten.convolution.default and args[6]:
            x, weight, bias, stride, padding, dilation, _, output_padding, groups = args
            if x.dtype is torch.float64 and x.device.type == self._device and x.numel():
                return transposed(
                    x, weight, bias, (stride, padding, dilation, output_padding), groups
                )
        return func(*args, **(kwargs or {}))


def transposed(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    numbers: tuple[Sequence[int], Sequence[int], Sequence[int], Sequence[int]],
    groups: int,
) -> torch.Tensor:
    """Return the transposed convolution of `x` (batch, channels, axes of space).

    Args:
        weight: (channels, output channels of a group, axes of the kernel).
        numbers: stride, padding, dilation and output padding.
    """
    inner, kernel, count = x.shape[2:], weight.shape[2:], len(x)
    steps = list(zip(inner, kernel, *numbers, strict=True))
    outer = [(i - 1) * s - 2 * p + d * (k - 1) + e + 1 for i, k, s, p, d, e in steps]
    columns = weight.shape[1]
    y = x.new_zeros((count, groups, columns, *outer))
    if bias is not None:
        y += bias.view(1, groups, columns, *(1,) * len(outer))
    left = weight.view(groups, -1, columns, *kernel).transpose(1, 2)
    right = x.reshape(count, groups, -1, *inner)
    images = max(1, _BYTES // (groups * columns * prod(inner) * 8))
    whole: list[Any] = [slice(None)] * 3
    for element in product(*map(range, kernel)):
        spans = [
            _span(k * d - p, i, o, s)
            for k, (i, _, s, p, d, _), o in zip(element, steps, outer, strict=True)
        ]
        if any(span is None for span in spans):
            continue
        read = (*whole, *(span[0] for span in spans if span))
        written = (*whole, *(span[1] for span in spans if span))
        factor = left[(*whole, *element)]
        for first in range(0, count, images):
            some = right[first : first + images][read]
            made = factor @ some.flatten(3)
            y[first : first + images][written].add_(made.view(*made.shape[:3], *some.shape[3:]))
    return y.flatten(1, 2)


def _span(begin: int, inner: int, outer: int, stride: int) -> tuple[slice, slice] | None:
    """Return which positions of the input an element of the kernel takes to which of the output, None for none.

    Args:
        begin: where it takes the first one, before the output's begin or not.
    """
    first = max(0, -(begin // stride))
    last = min(inner, -((begin - outer) // stride))
    if first >= last:
        return None
    start = begin + first * stride
    return slice(first, last), slice(start, start + (last - first - 1) * stride + 1, stride)
