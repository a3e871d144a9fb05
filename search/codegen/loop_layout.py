"""How a kernel's loops cover its iteration space: rows, the middle of a row, and vector lanes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from search.codegen.access_analysis import Walk
from search.codegen.iteration_space import Access, Space
from search.strides import contiguous


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopLayout:
    """Dimensions of the space by loop.

    Attributes:
        outer: dimensions that the row number ``o`` runs over.
        middle: dimensions that ``m`` runs over.
        lanes: dimensions that ``c`` runs over, in vectors.
        columns: lanes run beside the reduction instead of along it.
    """

    space: Space
    outer: tuple[int, ...]
    middle: tuple[int, ...]
    lanes: tuple[int, ...]
    columns: bool

    def size(self, dims: Sequence[int]) -> int:
        """Return how many steps a loop over `dims` makes."""
        return math.prod(self.space.sizes[dim] for dim in dims)

    def is_row(self, access: Access) -> bool:
        """Whether what is read so is the same all along a row."""
        inner = self.middle if self.columns else (*self.middle, *self.lanes)
        return all(access[dim] == 0 for dim in inner)

    def lane_step(self, access: Access) -> int | None:
        """Return the distance of neighbouring lanes, 0 or 1, None where it is neither throughout."""
        strides = [access[dim] for dim in self.lanes]
        if not any(strides):
            return 0
        return (
            1 if tuple(strides) == contiguous([self.space.sizes[d] for d in self.lanes]) else None
        )

    def offset(self, access: Access, dims: Sequence[int], index: str) -> str:
        """Return the C++ expression of the offset that `index` over `dims` makes; may be empty."""
        merged: list[list[int]] = []  # size, stride
        for dim in dims:
            size, stride = self.space.sizes[dim], access[dim]
            if merged and merged[-1][1] == stride * size:
                merged[-1] = [merged[-1][0] * size, stride]
            else:
                merged.append([size, stride])
        terms, inside = [], 1
        for at in range(len(merged) - 1, -1, -1):
            size, stride = merged[at]
            part = index if inside == 1 else f"{index} / {inside}"
            if at > 0:
                part = f"({part}) % {size}"
            if stride and size > 1:
                terms.append(f"({part}) * {stride}" if stride != 1 else f"({part})")
            inside *= size
        return " + ".join(reversed(terms))


def layout(found: Walk, plane: int | None = None) -> LoopLayout:
    """Return the loops that suit what `found` reads and writes.

    Args:
        plane: elements of the lanes where a recipe's own loops fix them.
    """
    space = found.space
    count = len(space.sizes)
    first, last = space.reduced
    dims = tuple(range(count))
    accesses = [access for _, access in found.sources] + list(found.roots.values())
    if plane is not None:
        start = count
        while start > 0 and math.prod(space.sizes[start:]) < plane:
            start -= 1
        return LoopLayout(
            space=space, outer=dims[:start], middle=(), lanes=dims[start:], columns=False
        )
    if space.reduced == (0, 0) or last < count:
        columns = space.reduced != (0, 0)
        start = _uniform(space, accesses, last if columns else 0)
        outer = dims[:first] + dims[last:start] if columns else dims[:start]
        middle = dims[first:last] if columns else ()
        return LoopLayout(
            space=space, outer=outer, middle=middle, lanes=dims[start:], columns=columns
        )
    start = _uniform(space, accesses, first)
    return LoopLayout(
        space=space, outer=dims[:first], middle=dims[first:start], lanes=dims[start:], columns=False
    )


def _uniform(space: Space, accesses: Sequence[Access], lowest: int) -> int:
    """Return where the longest run of trailing dimensions starts that every access sees as one."""
    start = len(space.sizes)
    while start > lowest:
        sizes = space.sizes[start - 1 :]
        wide = all(
            not any(access[start - 1 :]) or access[start - 1 :] == contiguous(sizes)
            for access in accesses
        )
        if not wide and start < len(space.sizes):
            break
        start -= 1
    return start
