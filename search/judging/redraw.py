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

Edges = tuple[tuple[torch.Tensor, ...], tuple[torch.Tensor, ...]]  # the low ones and the high ones
_SAME, _ULP = 0.01, 3e-7  # of what is allowed, and of the value: two bounds that are one


class RedrawnTrials:
    """Keeps the tensors of the trial that was asked for last.

    Args:
        truth: of `problem`.
    """

    def __init__(self, problem: Problem, truth: Truth) -> None:
        self._problem, self._truth = problem, truth
        self._inputs: dict[int, tuple[Any, ...]] = {}
        self._bounds: dict[int, TrialBounds] = {}
        self._shapes = [torch.Size(layout.shape) for layout in problem.outputs]
        self._cuts = _cuts(problem, self._shapes)

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
        cut = None if whole else self._proved(made)
        bare = replace(
            made, recall=_gone
        )  # what `made` recalls would be kept alive by what follows

        def given() -> tuple[Any, ...]:
            if seed not in self._inputs:
                self.forget()  # first: there is room for one
                self._inputs[seed] = distributions.draw(self._problem, bare.distribution, seed)
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
                    found = self._edges(bare, given(), cut)
                    assert found is not None  # it was answered in these pieces before
                    self._bounds[seed] = TrialBounds(inputs=given(), low=found[0], high=found[1])
            return self._bounds[seed]

        return replace(bare, recall=recall, given=given)

    def _proved(self, made: InputTrial) -> tuple[bool, ...] | None:
        """Return which inputs can be cut into rows so that the bounds come out as they are; None where none can.

        A cut that fails once is tried no more. A reference that sums over the first dimension fails, and so
        does one that counts on its length.
        """
        known = made.recall()
        while self._cuts:
            found = self._edges(made, known.inputs, self._cuts[0])
            if found is not None and _same(found, (known.low, known.high)):
                return self._cuts[0]
            del self._cuts[0]
        return None

    def _edges(
        self, made: InputTrial, inputs: tuple[Any, ...], cut: Sequence[bool] | None
    ) -> Edges | None:
        """Return the bounds, found piece by piece where inputs are cut; None where a piece has no such answer."""
        if cut is None:
            return edges(self._truth(inputs), made.slack, made.limits)
        device = next(x.device for x in inputs if isinstance(x, torch.Tensor))
        low, high = (
            tuple(torch.empty(x, dtype=torch.float32, device=device) for x in self._shapes)
            for _ in range(2)
        )
        for rows in _slices(self._shapes):
            exact = self._answered(inputs, cut, rows)
            if exact is None:
                return None
            limits = [
                tuple(x[rows] if x.shape[0] == shape[0] else x for x in usual)
                for usual, shape in zip(made.limits, self._shapes, strict=True)
            ]
            for whole, some in zip((low, high), edges(exact, made.slack, limits), strict=True):
                for value, part in zip(whole, some, strict=True):
                    value[rows] = part
        return low, high

    def _answered(
        self, inputs: tuple[Any, ...], cut: Sequence[bool], rows: slice
    ) -> tuple[torch.Tensor, ...] | None:
        """Return the truth of some rows; None where the program does not take them, or answers in another shape."""
        some = tuple(x[rows] if chosen else x for x, chosen in zip(inputs, cut, strict=True))
        try:
            exact = self._truth(some)
        except torch.OutOfMemoryError:
            raise
        except Exception:  # noqa: BLE001 - the user's program may raise anything on a shape that it was not written for
            return None
        count = len(range(*rows.indices(self._shapes[0][0])))
        fits = [
            x.shape == (count, *shape[1:]) for x, shape in zip(exact, self._shapes, strict=True)
        ]
        return exact if all(fits) else None


def _gone() -> TrialBounds:
    raise AssertionError


def _cuts(problem: Problem, shapes: Sequence[torch.Size]) -> list[tuple[bool, ...]]:
    """Return which inputs may be cut along their first dimension where the answer is; none where it is small."""
    rows = {shape[0] if shape else 0 for shape in shapes}
    whole = any(layout.dtype in WHOLE for layout in problem.outputs)
    if len(rows) != 1 or min(rows) < 2 or whole or problem.views or len([*_slices(shapes)]) < 2:
        return []
    fits = [
        isinstance(x, torch.Tensor) and x.dim() > 0 and x.shape[0] in rows for x in problem.inputs
    ]
    # The right side of a product of square matrices has as many rows as the answer, and is not to be cut.
    alone = [tuple(at == other for at in range(len(fits))) for other, fit in enumerate(fits) if fit]
    return [cut for cut in dict.fromkeys([tuple(fits), *alone]) if any(cut)]


def _same(found: Edges, known: Edges) -> bool:
    """Say whether bounds are those that are known, but for the rounding of the truth."""
    for mine, theirs in zip(found, known, strict=True):
        for value, edge, low, high in zip(mine, theirs, *known, strict=True):
            allowed = (high - low).mul_(_SAME).add_(edge.abs() * _ULP)
            if not bool(((value - edge).abs_() <= allowed).all()):
                return False
    return True


def _slices(shapes: Sequence[torch.Size]) -> Iterator[slice]:
    """Yield slices of rows as the largest answer is cut by `pieces`."""
    largest = max(shapes, key=lambda shape: shape.numel())
    yield from pieces(torch.empty(largest, device="meta"))
