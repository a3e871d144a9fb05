"""Answers that are factors of a matrix: they are right where their product is the matrix and they are orthogonal.

Which of two signs a pair of singular vectors has is the library's choice, and so is the basis where singular values are equal. So
vectors are not compared one by one. Where a reference returns all factors of one call, ``U S V`` or ``L Q``, the product
and the orthogonality are compared in their place; the values themselves are compared as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from search.judging.indices import OriginWatch, memory_of

# By operator: the number of its results, and which of them are vectors.
_CALLS = {"_linalg_svd": (3, (0, 2)), "_linalg_eigh": (2, (1,))}


@dataclass(frozen=True, slots=True)
class _Part:
    """One result of a call."""

    name: str
    call: int
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FactorLookup:
    """Says what is compared in the place of an output that holds vectors.

    Attributes:
        name: the operator's plain name.
        outputs: the numbers of the outputs that hold its results, in the operator's order.
        turned: of each, whether it is the transposed result.
        number: which of the results this output holds.
    """

    name: str
    outputs: tuple[int, ...]
    turned: tuple[bool, ...]
    number: int
    whole: bool = False  # of what is compared
    nbytes: int = 0  # that it keeps alive

    def compared(
        self, number: int, outputs: Sequence[torch.Tensor]
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return what is compared of output `number`, and None: nothing of it is forbidden.

        Returns:
            Of the left vectors, the product of all factors over the greatest value, [..., M, N]; of the right ones, both matrices
            of inner products, [..., elements]. Of eigenvectors both. So no element is much greater than one, whatever the matrix.
        """
        del number
        parts = [
            outputs[at].mT if turned else outputs[at]
            for at, turned in zip(self.outputs, self.turned, strict=True)
        ]
        wide = [part.double() for part in parts]
        values = wide[0] if self.name == "_linalg_eigh" else wide[1]
        size = values.abs().amax(-1, keepdim=True)
        shares = (values / torch.where(size == 0, 1.0, size)).unsqueeze(-2)
        if self.name == "_linalg_eigh":
            vectors = wide[1]
            product = (vectors * shares) @ vectors.mT
            return torch.cat([product.flatten(-2), (vectors.mT @ vectors).flatten(-2)], -1), None
        left, _, right = wide
        if self.number == 0:
            count = values.shape[-1]
            return (left[..., :count] * shares) @ right[..., :count, :], None
        inner = [(left.mT @ left).flatten(-2), (right @ right.mT).flatten(-2)]
        return torch.cat(inner, -1), None


class FactorWatch(OriginWatch):  # type: ignore[no-untyped-call] # torch's own
    """Remembers the calls that factorise."""

    def __init__(self) -> None:
        super().__init__()
        self._count = 0

    def _note(self, name: str, result: Any, given: Mapping[str, Any]) -> None:
        del given
        if name in _CALLS:
            self._count += 1
            for number, part in enumerate(result[: _CALLS[name][0]]):
                self._origins[memory_of(part)] = (part, _Part(name, self._count, number))

    def lookups(self, outputs: Sequence[torch.Tensor]) -> tuple[FactorLookup | None, ...]:
        """Return by output what is compared in its place, None of one that is compared as it is."""
        seen = [self._part(output) for output in outputs]
        found: list[FactorLookup | None] = [None] * len(outputs)
        for at, here in enumerate(seen):
            if here is None or here[0].number not in _CALLS[here[0].name][1]:
                continue
            count, _ = _CALLS[here[0].name]
            places = [
                [n for n, other in enumerate(seen) if other and other[0] == _Part(here[0].name, here[0].call, part)]
                for part in range(count)
            ]  # fmt: skip
            if all(len(place) == 1 for place in places):
                numbers = tuple(place[0] for place in places)
                turned = tuple(bool(other and other[1]) for other in (seen[n] for n in numbers))
                found[at] = FactorLookup(
                    name=here[0].name, outputs=numbers, turned=turned, number=here[0].number
                )
        return tuple(found)

    def _part(self, output: torch.Tensor) -> tuple[_Part, bool] | None:
        """Return which result an output holds, and whether transposed; None where it holds none whole."""
        turned, shown = False, output
        while memory_of(shown) in self._origins:
            base, origin = self._origins[memory_of(shown)]
            if not _alike(shown, base):
                if base.dim() < 2 or not _alike(shown, base.mT):
                    return None
                turned = not turned
            if isinstance(origin, _Part):
                return origin, turned
            shown = origin
        return None


def _alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    return (
        one.shape == other.shape
        and one.stride() == other.stride()
        and one.storage_offset() == other.storage_offset()
    )
