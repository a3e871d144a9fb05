"""Sizes as a kernel reads them at run time: names for a space's dimensions, and texts made of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from search.codegen.ir import Shape
from search.codegen.iteration_space import Access, Space
from search.strides import contiguous


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A tensor of which the host code knows the shape.

    Attributes:
        text: the host expression of its shape, e.g. ``t0.shape``.
        access: where its elements lie in the space.
    """

    text: str
    shape: Shape
    access: Access


class Extent:
    """Names and host expressions of the dimensions of one space.

    A dimension that is a whole dimension of a tensor is read from its shape. Where a tensor's
    dimension falls apart into several, as channels into groups, the inner one is what is left of it,
    and the outer ones keep the number that the operator was given.
    """

    def __init__(self, space: Space, seen: Iterable[Seen], prefix: str) -> None:
        self.space = space
        self._names = tuple(f"{prefix}{at}" for at in range(len(space.sizes)))
        listed = list(seen)
        self._texts = tuple(_text(space, listed, at) for at in range(len(space.sizes)))

    @property
    def names(self) -> tuple[str, ...]:
        """The names under which kernels know the sizes, outermost first."""
        return self._names

    def lines(self) -> list[str]:
        """Return the host statements that give the names their values."""
        return [f"{name} = {text}" for name, text in zip(self._names, self._texts, strict=True)]

    def product(self, dims: Iterable[int]) -> str:
        """Return the number of elements of `dims`."""
        return " * ".join(self._names[dim] for dim in dims) or "1"

    def shape(self, shape: Shape, access: Access) -> str:
        """Return the host expression of the shape of a tensor with `access` in the space."""
        steps = contiguous(shape)
        parts = []
        for size, step in zip(shape, steps, strict=True):
            inside = [at for at in range(len(access)) if self._covers(access, at, step, size)]
            exact = math.prod(self.space.sizes[at] for at in inside) == size
            parts.append(self.product(inside) if exact else str(size))
        return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"

    def _covers(self, access: Access, at: int, step: int, size: int) -> bool:
        stride = access[at]
        return stride >= step and stride * self.space.sizes[at] <= step * size and size > 1

    def stride(self, access: Access, at: int) -> str:
        """Return the distance of neighbours along dimension `at` in a tensor with `access`."""
        return self.product(dim for dim in range(at + 1, len(access)) if access[dim])

    def offset(self, access: Access, dims: Sequence[int], index: str) -> str:
        """Return the offset that `index` over `dims` makes in a tensor with `access`; may be empty."""
        groups: list[list[int]] = []
        for dim in dims:
            last = groups[-1][-1] if groups else None
            if last is not None and self._continues(access, last, dim):
                groups[-1].append(dim)
            else:
                groups.append([dim])
        terms: list[str] = []
        inside: list[int] = []
        for at in range(len(groups) - 1, -1, -1):
            part = f"({index}) // ({self.product(inside)})" if inside else index
            if at > 0:
                part = f"({part}) % ({self.product(groups[at])})"
            if access[groups[at][-1]]:
                stride = self.stride(access, groups[at][-1])
                terms.append(f"({part})" if stride == "1" else f"({part}) * ({stride})")
            inside = groups[at] + inside
        return " + ".join(reversed(terms))

    def _continues(self, access: Access, before: int, dim: int) -> bool:
        if not access[before] or not access[dim]:
            return access[before] == access[dim]
        return access[before] == access[dim] * self.space.sizes[dim]


def _text(space: Space, seen: Sequence[Seen], at: int) -> str:
    size = space.sizes[at]
    for tensor in seen:
        whole = _whole(tensor, tensor.access[at], size)
        if whole:
            return whole
    for tensor in seen:
        left = _left(space, tensor, at)
        if left:
            return left
    return str(size)


def _whole(tensor: Seen, stride: int, size: int) -> str:
    """Return the product of neighbouring dimensions of `tensor` that make up one of the space."""
    steps = contiguous(tensor.shape)
    found: list[str] = []
    wanted = stride
    if not stride:
        return ""
    for dim in range(len(tensor.shape) - 1, -1, -1):
        if steps[dim] == wanted and tensor.shape[dim] > 1 and wanted < stride * size:
            found.append(f"{tensor.text}[{dim}]")
            wanted *= tensor.shape[dim]
    return " * ".join(reversed(found)) if wanted == stride * size else ""


def _left(space: Space, tensor: Seen, at: int) -> str:
    """Return what the outer parts of a tensor's dimension leave for its innermost part."""
    steps = contiguous(tensor.shape)
    stride = tensor.access[at]
    for dim, (step, size) in enumerate(zip(steps, tensor.shape, strict=True)):
        if stride != step or size == 1 or not stride:
            continue
        outer = [
            space.sizes[other]
            for other in range(len(space.sizes))
            if other != at and step < tensor.access[other] < step * size
        ]
        if math.prod(outer) * space.sizes[at] == size:
            return f"{tensor.text}[{dim}] // {math.prod(outer)}"
    return ""


def count(sizes: Sequence[int], dims: Sequence[int] | range) -> int:
    """Return how many elements some dimensions have."""
    total = 1
    for dim in dims:
        total *= sizes[dim]
    return total


def reshaped(text: str, shape: Shape, wanted: Shape) -> str:
    """Return the host expression of a tip's shape as the result has it."""
    if shape == wanted:
        return text
    padded = (1,) * (len(wanted) - len(shape)) + shape
    if padded == wanted:
        return f"({'1, ' * (len(wanted) - len(shape))}*{text})"
    steps, found = contiguous(shape), []
    for size, step in zip(wanted, contiguous(wanted), strict=True):
        dims = [f"{text}[{at}]" for at in range(len(shape))
                if size > 1 and steps[at] >= step and steps[at] * shape[at] <= step * size
                and shape[at] > 1]  # fmt: skip
        exact = count(shape, [at for at in range(len(shape)) if f"{text}[{at}]" in dims]) == size
        found.append(" * ".join(dims) if dims and exact else str(size))
    return f"({', '.join(found)},)"
