"""The truth: the reference in float64, on its inputs as they are, moved by their rounding, or rounded."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch

from search.judging.indices import IndexLookup, IndexWatch
from search.judging.precision import allowed_tf32
from search.judging.truth.factors import FactorLookup, FactorWatch
from search.judging.truth.rounded import RoundedOperands
from search.judging.truth.transposed import TransposedProducts
from search.judging.truth.written_out import WrittenOut
from search.reference import WHOLE, Problem, as_tuple

_EPS = 2.0**-23


class Truth:
    """The reference in float64.

    Args:
        state: its parameters, where they are not the problem's own.
    """

    def __init__(self, problem: Problem, state: Mapping[str, torch.Tensor] | None = None) -> None:
        self._problem = problem
        self._state = problem.state if state is None else state
        self.model = copy.deepcopy(problem.model).double()
        if state is not None:
            self.model.load_state_dict(dict(state))

    def __call__(
        self,
        inputs: tuple[Any, ...],
        moved: Callable[[torch.Tensor], torch.Tensor] | None = None,
        within: AbstractContextManager[object] | None = None,
    ) -> tuple[torch.Tensor, ...]:
        """Return what it computes.

        Args:
            within: how operators are computed; None for what is fast.
            moved: applied to every floating-point input and parameter first, e.g. a rounding. One to TF32 is applied
                inside too, to what convolutions read, and products where the task lets the framework do so.
        """
        with (
            _default_double(),
            torch.no_grad(),
            within or self._products(inputs),
            self._rounded(moved),
        ):
            wide = tuple(_widen(value, moved) for value in inputs)
            if moved is None:
                return as_tuple(self.model(*wide))
            state = {name: _widen(value, moved) for name, value in self._state.items()}
            return as_tuple(torch.func.functional_call(self.model, state, wide))

    def _products(self, inputs: tuple[Any, ...]) -> AbstractContextManager[object]:
        """Return what transposed convolutions are computed in: on a processor the library's are fast."""
        on_gpu = any(isinstance(one, torch.Tensor) and one.is_cuda for one in inputs)
        transposes = "conv_transpose" in self._problem.task.source or any(
            getattr(module, "transposed", False) for module in self.model.modules()
        )
        return TransposedProducts() if on_gpu and transposes else nullcontext()

    def _rounded(
        self, moved: Callable[[torch.Tensor], torch.Tensor] | None
    ) -> AbstractContextManager[object]:
        if moved is None or moved not in ROUNDINGS["tf32"]:
            return nullcontext()
        products, _ = allowed_tf32(self._problem.task.settings.precision)
        return RoundedOperands(moved, products=products)

    def values(
        self,
        inputs: tuple[Any, ...],
        moved: Callable[[torch.Tensor], torch.Tensor] | None = None,
        within: AbstractContextManager[object] | None = None,
    ) -> tuple[torch.Tensor, ...]:
        """Return the same, with values in place of the indices that stand for them.

        Args:
            within: entered besides what operators are computed in, and sees what those make of them.
        """
        with within or nullcontext():
            return watched(self._problem, lambda: self(inputs, moved)).values

    def written_out(self, inputs: tuple[Any, ...]) -> tuple[torch.Tensor, ...]:
        """Return the same from operators that are written out as others, see `WrittenOut`; nothing where that fails."""
        try:
            with WrittenOut():  # which must see transposed convolutions itself
                return watched(self._problem, lambda: self(inputs, within=nullcontext())).values
        except (RuntimeError, TypeError, ValueError, NotImplementedError):
            return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """An answer of the reference, and what is compared of it: values at indices, and what vectors make."""

    outputs: tuple[torch.Tensor, ...]
    values: tuple[torch.Tensor, ...]
    lookups: tuple[IndexLookup | FactorLookup | None, ...]


def plain(outputs: tuple[torch.Tensor, ...]) -> Watched:
    """Return an answer that holds no indices, and no vectors."""
    return Watched(outputs=outputs, values=outputs, lookups=(None,) * len(outputs))


def watched(problem: Problem, run: Callable[[], tuple[torch.Tensor, ...]]) -> Watched:
    """Run the reference, and find what is compared of indices and vectors that it answers."""
    if not problem.special:
        return plain(run())
    with IndexWatch() as places, FactorWatch() as factors:
        outputs = run()
    lookups = tuple(
        places.lookup(value) if layout.dtype in WHOLE else vectors
        for value, layout, vectors in zip(
            outputs, problem.outputs, factors.lookups(outputs), strict=True
        )
    )
    values = tuple(
        value if lookup is None else lookup.compared(number, outputs)[0]
        for number, (value, lookup) in enumerate(zip(outputs, lookups, strict=True))
    )
    return Watched(outputs=outputs, values=values, lookups=lookups)


def _widen(value: Any, moved: Callable[[torch.Tensor], torch.Tensor] | None) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    if not value.is_floating_point():
        return value.clone()
    return moved(value).double() if moved is not None else value.double()


@contextmanager
def _default_double() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def jitter(value: torch.Tensor, generator: torch.Generator, times: float = 1) -> torch.Tensor:
    """Move every element by half a unit in its last place: the error that a right answer may have.

    Args:
        times: so many half units instead.
    """
    where = generator.device
    sign = torch.randint(2, value.shape, generator=generator, dtype=torch.int8, device=where)
    change = times * _EPS / 2
    factor = sign.double()
    del sign
    # In place: where there are gigabytes, each copy counts.
    factor.mul_(2 * change).add_(1 - change)
    return factor.mul_(value)


def away(value: torch.Tensor) -> torch.Tensor:
    """Move every element up by half a unit in its last place, so that a sum moves by that of its absolute terms.

    Where few terms are much greater than the others, random signs let their errors cancel as the terms do.
    """
    wide = value.abs().double().mul_(_EPS / 2)
    return wide.add_(value)


def _to_tf32(value: torch.Tensor) -> torch.Tensor:
    """Round to ten bits of mantissa, as a conversion to tf32 does."""
    if value.dtype is not torch.float32:
        return value
    bits = value.contiguous().view(torch.int32)
    return ((bits + 0x1000) & ~0x1FFF).view(torch.float32)


def _cut_to_tf32(value: torch.Tensor) -> torch.Tensor:
    """Leave out all but ten bits of mantissa, as tensor cores read float32 that nobody converted."""
    if value.dtype is not torch.float32:
        return value
    return (value.contiguous().view(torch.int32) & ~0x1FFF).view(torch.float32)


def _to_half(value: torch.Tensor) -> torch.Tensor:
    return value.clamp(-65504, 65504).half().to(value.dtype)


ROUNDINGS = {"tf32": (_to_tf32, _cut_to_tf32), "half": (_to_half,)}
