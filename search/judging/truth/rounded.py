"""Rounding inside a reference: of what convolutions and products read, as tensor cores do, and of every result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

_aten = torch.ops.aten
_CONVOLUTIONS = {_aten.convolution.default: (0, 1)}
_PRODUCTS = {
    _aten.mm.default: (0, 1),
    _aten.bmm.default: (0, 1),
    _aten.addmm.default: (1, 2),
    _aten.baddbmm.default: (1, 2),
}


class RoundedOperands(TorchDispatchMode):
    """Rounds what every convolution reads, and every product where that is said, to fewer digits.

    A network's inner values are rounded too, and where neighbours are equal their errors are: they add up in every term
    of a sum. Rounded inputs and weights alone do not show that.

    Args:
        rounding: of a float32 tensor.
        products: whether it rounds matrix products too.
    """

    def __init__(self, rounding: Callable[[torch.Tensor], torch.Tensor], *, products: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._rounding = rounding
        self._operands: Mapping[Any, tuple[int, int]] = {
            **_CONVOLUTIONS,
            **(_PRODUCTS if products else {}),
        }

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        given = list(args)
        for at in self._operands.get(func) or ():
            given[at] = self._rounding(given[at].float()).to(given[at].dtype)
        return func(*given, **(kwargs or {}))


class MovedResults(TorchDispatchMode):
    """Moves what every operator computes, as rounding it would.

    Where a matrix is nearly singular, what its elements were rounded to decides more than any rounding of the inputs that
    it was made of: one large input scales all elements alike.

    Args:
        move: of a tensor in double precision.
    """

    def __init__(self, move: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._move = move

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        aliased = any(one.alias_info is not None for one in func._schema.returns)
        if aliased or not any(isinstance(one, torch.Tensor) for one in args):
            return result  # a view, what was written in place, or a constant
        return tree_map(self._moved, result)

    def _moved(self, value: Any) -> Any:
        moves = isinstance(value, torch.Tensor) and value.dtype is torch.float64
        return self._move(value) if moves else value
