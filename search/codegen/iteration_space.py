"""Iteration spaces: where each node's elements lie as a kernel walks over its result.

A space is a list of dimensions fine enough that every shape in the segment is made of products of
neighbours. An access gives, for each dimension of the space, the stride in a node's own contiguous
elements; zero where the node is broadcast along it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from search.codegen.ir import IrNode, Shape
from search.strides import contiguous

Access = tuple[int, ...]


class Misfit(Exception):
    """The nodes share no iteration space."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """Dimensions, outermost first, and the neighbours among them that are reduced.

    Attributes:
        sizes: none is one.
        reduced: first and one past the last reduced dimension; equal where nothing is.
    """

    sizes: tuple[int, ...]
    reduced: tuple[int, int]

    @property
    def full(self) -> Access:
        """The access of a contiguous tensor over the whole space."""
        return contiguous(self.sizes)

    @property
    def row(self) -> Access:
        """The access of what a reduction leaves."""
        first, last = self.reduced
        kept = tuple(1 if first <= at < last else size for at, size in enumerate(self.sizes))
        strides = contiguous(kept)
        return tuple(0 if first <= at < last else strides[at] for at in range(len(self.sizes)))

    @property
    def numel(self) -> int:
        """Elements of the whole space."""
        return math.prod(self.sizes)

    @property
    def depth(self) -> int:
        """Elements that are reduced to one."""
        return math.prod(self.sizes[slice(*self.reduced)])


def make_space(
    nodes: Iterable[IrNode], known: Mapping[str, IrNode], borders: tuple[int, ...]
) -> Space:
    """Return the space of `nodes`.

    Args:
        nodes: what the segment computes.
        known: every node by name.
        borders: suffix products that must fall between two dimensions.

    Raises:
        Misfit: their shapes do not refine to one list of dimensions, or they reduce differently.
    """
    listed = list(nodes)
    sources = [known[node.operands[0]] for node in listed if node.kind == "reduce"]
    full = max(node.numel for node in (*listed, *sources))
    blocks = {
        _block(known[node.operands[0]].shape, node.dims) for node in listed if node.kind == "reduce"
    }
    if full == 0 or len(blocks) > 1 or any(source.numel != full for source in sources):
        raise Misfit
    high, low = next(iter(blocks)) if blocks else (1, 1)
    cuts = {1, full, high, low, *borders}
    for shape in (node.shape for node in (*listed, *sources)):
        cuts |= _cuts(shape, full, (high, low) if blocks else None)
    ordered = sorted(cuts, reverse=True)
    if any(big % small for big, small in pairwise(ordered)):
        raise Misfit
    sizes = tuple(big // small for big, small in pairwise(ordered))
    if not sizes:
        return Space(sizes=(1,), reduced=(0, 0) if not blocks else (0, 1))
    if high == low:
        return Space(sizes=sizes, reduced=(len(sizes), len(sizes)) if blocks else (0, 0))
    return Space(sizes=sizes, reduced=(ordered.index(high), ordered.index(low)))


def _cuts(shape: Shape, full: int, block: tuple[int, int] | None) -> set[int]:
    """Return the suffix products of the whole space at which `shape` has a border."""
    own = _suffixes(shape)
    if math.prod(shape) == full:
        return own
    high, low = block or (1, 1)
    if block is None or math.prod(shape) * (high // low) != full:
        return set()
    if any(product > low and product % low for product in own):
        raise Misfit
    return {product if product <= low else product * (high // low) for product in own}


def _suffixes(shape: Shape) -> set[int]:
    found, product = set(), 1
    for size in reversed(shape):
        product *= size
        found.add(product)
    return found


def _block(shape: Shape, dims: tuple[int, ...]) -> tuple[int, int]:
    """Return the suffix products before and after the reduced dimensions."""
    wide = [dim for dim in dims if shape[dim] != 1]
    if not wide:
        return 1, 1
    return math.prod(shape[min(wide) :]), math.prod(shape[max(wide) + 1 :])


def operand_access(space: Space, access: Access, node: Shape, operand: Shape) -> Access:
    """Return the access of an operand that is broadcast to a map's shape.

    Args:
        access: of the map's own elements.
        node: shape of the map.
        operand: shape of the operand.

    Raises:
        Misfit: a dimension of the space straddles two dimensions of the map.
    """
    if node == operand:
        return access
    padded = (1,) * (len(node) - len(operand)) + operand
    steps, own = contiguous(node), contiguous(padded)
    result = []
    for size, stride in zip(space.sizes, access, strict=True):
        if stride == 0 or size == 1:
            result.append(0)
            continue
        for at in range(len(node)):
            inside = steps[at] <= stride and stride * size <= steps[at] * node[at]
            if inside and node[at] > 1:
                if stride % steps[at]:
                    raise Misfit
                result.append(0 if padded[at] == 1 else stride // steps[at] * own[at])
                break
        else:
            raise Misfit
    return tuple(result)
