"""Trials whose tensors are made again, from their seeds, when they are asked for: where inputs have gigabytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch

from search.judging import inputs as distributions
from search.judging.bounds import edges, pieces
from search.judging.trial import InputTrial, TrialBounds
from search.judging.truth import Truth
from search.reference import WHOLE, Problem

_NEAR = 1e-3  # two shapes of one program differ by their rounding, not by more


class Shelf:
    """Keeps the tensors of the trial that was asked for last.

    Args:
        truth: of `problem`.
    """

    def __init__(self, problem: Problem, truth: Truth) -> None:
        self._problem, self._truth = problem, truth
        self._inputs: dict[int, tuple[Any, ...]] = {}
        self._bounds: dict[int, TrialBounds] = {}
        self._cut: tuple[bool, ...] | None = None
        self._looked = False

    def forget(self) -> None:
        """Let go of them."""
        self._inputs.clear()
        self._bounds.clear()

    def redrawn(
        self, made: InputTrial, seed: int, again: Callable[[], InputTrial | str]
    ) -> InputTrial:
        """Return a trial as `made` that keeps no tensors.

        Args:
            seed: that it was drawn from.
            again: makes the whole trial once more.
        """
        whole = self._problem.special or made.distribution == distributions.SPECIAL

        def given() -> tuple[Any, ...]:
            if seed not in self._inputs:
                self.forget()  # first: there is room for one
                self._inputs[seed] = distributions.draw(self._problem, made.distribution, seed)
            return self._inputs[seed]

        def recall() -> TrialBounds:
            if seed not in self._bounds:
                if whole:
                    self.forget()
                    trial = again()
                    assert isinstance(trial, InputTrial)
                    self._bounds[seed] = trial.recall()
                    self._inputs[seed] = self._bounds[seed].inputs
                else:
                    self._bounds[seed] = self._bounded(made, given())
            return self._bounds[seed]

        return replace(made, recall=recall, given=given)

    def _bounded(self, made: InputTrial, inputs: tuple[Any, ...]) -> TrialBounds:
        shapes = [torch.Size(layout.shape) for layout in self._problem.outputs]
        slices = list(_slices(shapes))
        if not self._looked and len(slices) > 1:
            self._cut, self._looked = rows_apart(self._problem, inputs), True
        if self._cut is None:
            low, high = edges(self._truth(inputs), made.slack, made.limits)
            return TrialBounds(inputs=inputs, low=low, high=high)
        device = next(x.device for x in inputs if isinstance(x, torch.Tensor))
        low, high = (tuple(torch.empty(x, device=device) for x in shapes) for _ in range(2))
        for rows in slices:
            exact = self._truth(sliced(inputs, self._cut, rows))
            limits = [
                tuple(x[rows] if x.shape[0] == shape[0] else x for x in usual)
                for usual, shape in zip(made.limits, shapes, strict=True)
            ]
            for whole, some in zip((low, high), edges(exact, made.slack, limits), strict=True):
                for value, part in zip(whole, some, strict=True):
                    value[rows] = part
        return TrialBounds(inputs=inputs, low=low, high=high)


def rows_apart(problem: Problem, inputs: Sequence[Any]) -> tuple[bool, ...] | None:
    """Say which inputs can be cut along their first dimension, so that each piece gives its piece of the answer.

    It is tried: where half of the rows are exchanged, the answer to the others must stay the same, bit by
    bit, and a piece alone must give nearly that. A reference that sums over the first dimension, or that
    counts on its length, fails.

    Returns:
        One entry an input; None where the answer depends on all rows at once.
    """
    rows = {layout.shape[0] if layout.shape else 0 for layout in problem.outputs}
    whole = any(layout.dtype in WHOLE for layout in problem.outputs)
    if len(rows) != 1 or whole or problem.special or min(rows) < 2 or problem.views:
        return None
    count = min(rows)
    fits = [isinstance(x, torch.Tensor) and x.dim() > 0 and x.shape[0] == count for x in inputs]
    # A square matrix on the right side has as many rows as the answer, and is not to be cut.
    for cut in dict.fromkeys([tuple(fits), *_alone(fits)]):
        if any(cut) and _apart(problem, inputs, cut, count):
            return cut
    return None


def _alone(fits: Sequence[bool]) -> Iterator[tuple[bool, ...]]:
    for at, one in enumerate(fits):
        if one:
            yield tuple(place == at for place in range(len(fits)))


def _apart(problem: Problem, inputs: Sequence[Any], cut: Sequence[bool], count: int) -> bool:
    half = count // 2
    try:
        answer = problem.run(*inputs)
        for kept, changed in (
            (slice(0, half), slice(half, count)),
            (slice(half, count), slice(0, half)),
        ):
            other = list(inputs)
            for at, (value, chosen) in enumerate(zip(inputs, cut, strict=True)):
                if chosen:
                    other[at] = value.clone()
                    other[at][changed] = value[changed].flip(0).mul(0.5).to(value.dtype)
            for one, same in zip(answer, problem.run(*other), strict=True):
                if not torch.equal(one[kept], same[kept]):
                    return False
            del other
            for one, part in zip(answer, problem.run(*sliced(inputs, cut, kept)), strict=True):
                size = float(one[kept].abs().max())
                if (
                    part.shape != one[kept].shape
                    or float((one[kept] - part).abs().max()) > _NEAR * size
                ):
                    return False
    except torch.OutOfMemoryError:
        raise
    except Exception:  # noqa: BLE001 - a program may raise anything on a shape that it was not written for
        return False
    return True


def sliced(inputs: Sequence[Any], cut: Sequence[bool], rows: slice) -> tuple[Any, ...]:
    """Return the inputs of some rows of the answer."""
    return tuple(x[rows] if chosen else x for x, chosen in zip(inputs, cut, strict=True))


def _slices(shapes: Sequence[torch.Size]) -> Iterator[slice]:
    """Yield slices of rows as the largest answer is cut by `pieces`."""
    largest = max(shapes, key=lambda shape: shape.numel())
    yield from pieces(torch.empty(largest, device="meta"))
