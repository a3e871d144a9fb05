"""Trials whose tensors are made again, from their seeds, when they are asked for: where inputs have gigabytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from search.judging import inputs as distributions
from search.judging.bounds import Slack, edges, finite, pieces, widest
from search.judging.trial import InputTrial, RowCut, TrialBounds, gone, inside
from search.judging.truth.reference import Truth
from search.reference import WHOLE, Problem

Edges = tuple[tuple[torch.Tensor, ...], tuple[torch.Tensor, ...]]  # the low ones and the high ones
NOT_FINITE = "the reference's output is not finite"
_PARTS = 4  # of the rows, which are measured one after the other where there is no memory for all
_SAME, _ULP = 0.02, 3e-7  # of what is allowed, or of the value: two truths that are one


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
        self._sure = False

    @property
    def cut(self) -> RowCut | None:
        """How inputs can be cut so that the bounds come out as they are, where that was seen on every trial asked."""
        return self._cuts[0] if self._sure and self._cuts else None

    def in_parts(
        self,
        inputs: tuple[Any, ...],
        bounded: Callable[[tuple[Any, ...]], InputTrial | str],
    ) -> tuple[InputTrial | str, RowCut]:
        """Return a trial of which some rows are measured at a time, and how inputs are cut: measuring all does not fit.

        The framework's answer to all inputs at once must be within what follows for every row, which it is not where rows
        depend on one another.

        Args:
            bounded: measures answers to some inputs.

        Raises:
            torch.OutOfMemoryError: no cut does.
        """
        while self._cuts:
            cut = self._cuts[0]
            try:
                found = self._measured_in_parts(inputs, cut, bounded)
            except torch.OutOfMemoryError:
                raise
            except Exception:  # noqa: BLE001 - the user's program may raise anything on a shape that it was not written for
                found = None
            if found is not None:
                self._sure = True
                return found, cut
            del self._cuts[0]
        raise torch.OutOfMemoryError(
            "CUDA out of memory: the reference in float64 does not fit, and its rows do not stand apart"
        )

    def _measured_in_parts(
        self,
        inputs: tuple[Any, ...],
        cut: RowCut,
        bounded: Callable[[tuple[Any, ...]], InputTrial | str],
    ) -> InputTrial | str | None:
        """Return the trial, why there is none, or None where the framework's own answer is not within it."""
        bare, count = [], self._shapes[0][0]
        for first in range(min(_PARTS, count)):
            pairs = zip(cut.of(inputs, slice(first, None, _PARTS)), inputs, cut.inputs, strict=True)
            made = bounded(tuple(_dense(x, whole) if cuts else x for x, whole, cuts in pairs))
            if isinstance(made, str):
                return made
            bare.append(replace(made, recall=gone))
            del made
        each = zip(*(one.slack for one in bare), strict=True)
        # Of fewer rows it cannot be told what is usual in one of them and what in a column. Where a part has none, as within a
        # task's own tolerances, none hold.
        known = bare if count >= 2 * _PARTS else []
        limits = zip(*(one.limits for one in known), strict=True)
        trial = replace(
            bare[0],
            slack=tuple(widest(some) for some in each),
            limits=tuple(
                tuple(_joined(some, count) for some in zip(*usual, strict=False))
                for usual in limits
            )
            or ((),) * len(self._shapes),
        )
        answer = self._problem.run(*inputs)
        if not finite(answer):
            return NOT_FINITE
        for rows in cut.rows:
            piece = self._piece(trial, cut.of(inputs, rows), rows)
            if piece is None or not inside(piece, tuple(x[rows] for x in answer)):
                return None
        return trial

    def forget(self) -> None:
        """Let go of them."""
        self._inputs.clear()
        self._bounds.clear()

    def redrawn(
        self,
        made: InputTrial,
        seed: int,
        again: Callable[[], InputTrial | str],
        cut: RowCut | None = None,
    ) -> InputTrial:
        """Return a trial as `made` that keeps no tensors.

        Args:
            seed: that it was drawn from.
            again: makes the whole trial once more.
            cut: how inputs were cut when it was made; None: they were not.
        """
        whole = self._problem.special or made.distribution == distributions.SPECIAL
        if cut is None and not whole:
            cut = self._proved(made)
        # What `made` recalls would be kept alive by what follows.
        bare = replace(made, recall=gone)

        def recall() -> TrialBounds:
            if seed not in self._bounds:
                if whole:
                    self.forget()
                    trial = again()
                    assert isinstance(trial, InputTrial)
                    self._bounds[seed] = trial.recall()
                    self._inputs[seed] = self._bounds[seed].inputs
                else:
                    self._bounds[seed] = self._bounded(bare, seed, cut)
            return self._bounds[seed]

        part = None if cut is None else partial(self._part, bare, seed, cut)
        given = partial(self._given, bare, seed)
        return replace(bare, recall=recall, given=given, cut=cut, part=part)

    def drawn(
        self,
        known: InputTrial,
        seed: int,
        again: Callable[[], InputTrial | str],
        cut: RowCut | None = None,
    ) -> InputTrial:
        """Return a trial of the distribution of `known`, whose slack holds for it; its bounds are measured if anyone asks.

        Args:
            known: a trial on other inputs; their limits are not these inputs'.
            seed: that it is drawn from.
            again: measures it.
            cut: how its rows are measured apart, or bounded by the slack where there is no memory for that.
        """

        def recall() -> TrialBounds:
            if seed not in self._bounds:
                self._bounds[seed] = self._remeasured(known, seed, again, cut)
            return self._bounds[seed]

        return replace(known, recall=recall, given=partial(self._given, known, seed), cut=cut)

    def _given(self, bare: InputTrial, seed: int) -> tuple[Any, ...]:
        """Return the inputs of a trial."""
        if seed not in self._inputs:
            self.forget()  # first: there is room for one
            self._inputs[seed] = distributions.draw(self._problem, bare.distribution, seed)
        return self._inputs[seed]

    def _bounded(self, bare: InputTrial, seed: int, cut: RowCut | None) -> TrialBounds:
        """Return the bounds that follow from what a trial says is allowed."""
        inputs = self._given(bare, seed)
        found = self._edges(bare, inputs, cut)
        assert found is not None  # it was answered in these pieces before
        return TrialBounds(inputs=inputs, low=found[0], high=found[1])

    def _remeasured(
        self,
        bare: InputTrial,
        seed: int,
        again: Callable[[], InputTrial | str],
        cut: RowCut | None,
    ) -> TrialBounds:
        self.forget()
        try:
            made = again()
        except torch.OutOfMemoryError:
            if self._problem.special or bare.distribution == distributions.SPECIAL:
                raise
        else:
            if isinstance(made, str):
                return self._unbounded(bare, seed)
            self._inputs[seed] = made.recall().inputs
            return made.recall()
        torch.cuda.empty_cache()  # here, where no frame of the error holds tensors
        return self._bounded(bare, seed, cut)

    def _unbounded(self, bare: InputTrial, seed: int) -> TrialBounds:
        """Return bounds that every number keeps: the truth of this draw cannot be bounded, and it tells nothing."""
        inputs = self._given(bare, seed)
        device = next(x.device for x in inputs if isinstance(x, torch.Tensor))
        low, high = (
            tuple(torch.full(x, end, device=device) for x in self._shapes)
            for end in (-torch.inf, torch.inf)
        )
        return TrialBounds(inputs=inputs, low=low, high=high)

    def _proved(self, made: InputTrial) -> RowCut | None:
        """Return how inputs can be cut into rows so that the truth comes out as it is; None where they cannot.

        A cut that fails once is tried no more. A reference that sums over the first dimension fails, and so
        does one that counts on its length.
        """
        while self._cuts:
            if self._stands(self._cuts[0], made):
                self._sure = True
                return self._cuts[0]
            del self._cuts[0]
        return None

    def _stands(self, cut: RowCut, made: InputTrial) -> bool:
        """Say whether the truth of a trial is what it is, found piece by piece."""
        for rows in cut.rows:
            found = self._answered(cut.of(made.fresh.inputs, rows), rows)
            if found is None:
                return False
            for mine, whole, slack in zip(found, made.fresh.exact, made.slack, strict=True):
                if not _same(mine, whole[rows], slack):
                    return False
        return True

    def _edges(self, made: InputTrial, inputs: tuple[Any, ...], cut: RowCut | None) -> Edges | None:
        """Return the bounds, found piece by piece where inputs are cut; None where a piece has no such answer."""
        if cut is None:
            return edges(self._truth(inputs), made.slack, made.limits)
        device = next(x.device for x in inputs if isinstance(x, torch.Tensor))
        low, high = (
            tuple(torch.empty(x, dtype=torch.float32, device=device) for x in self._shapes)
            for _ in range(2)
        )
        for rows in cut.rows:
            exact = self._answered(cut.of(inputs, rows), rows)
            if exact is None:
                return None
            limits = self._limits(made, rows)
            for whole, some in zip((low, high), edges(exact, made.slack, limits), strict=True):
                for value, part in zip(whole, some, strict=True):
                    value[rows] = part
        return low, high

    def _part(self, bare: InputTrial, seed: int, cut: RowCut, rows: slice) -> InputTrial | None:
        """Return the trial of some rows, see `_piece`."""
        return self._piece(bare, cut.of(self._given(bare, seed), rows), rows)

    def _piece(self, bare: InputTrial, some: tuple[Any, ...], rows: slice) -> InputTrial | None:
        """Return the trial of some rows, with the bounds that follow from what the whole says is allowed; None if there is none."""
        limits = self._limits(bare, rows)
        exact = self._answered(some, rows)
        if exact is None:
            return None
        low, high = edges(exact, bare.slack, limits)
        found = TrialBounds(inputs=some, low=low, high=high)
        return replace(bare, recall=lambda: found, limits=tuple(limits))

    def _limits(self, made: InputTrial, rows: slice) -> list[tuple[torch.Tensor, ...]]:
        """Return the limits of some rows."""
        return [
            tuple(x[rows] if x.shape[0] == shape[0] else x for x in usual)
            for usual, shape in zip(made.limits, self._shapes, strict=True)
        ]

    def _answered(self, some: tuple[Any, ...], rows: slice) -> tuple[torch.Tensor, ...] | None:
        """Return the truth of some rows; None where the program does not take them, or answers in another shape."""
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


def _cuts(problem: Problem, shapes: Sequence[torch.Size]) -> list[RowCut]:
    """Return how inputs may be cut along their first dimension where the answer is; not at all where all are small."""
    rows = {shape[0] if shape else 0 for shape in shapes}
    whole = any(layout.dtype in WHOLE for layout in problem.outputs)
    if len(rows) != 1 or min(rows) < 2 or whole or problem.views or problem.twins:
        return []
    fits = [
        isinstance(x, torch.Tensor) and x.dim() > 0 and x.shape[0] in rows for x in problem.inputs
    ]
    # The right side of a product of square matrices has as many rows as the answer, and is not to be cut.
    alone = [tuple(at == other for at in range(len(fits))) for other, fit in enumerate(fits) if fit]
    found = []
    for chosen in dict.fromkeys([tuple(fits), *alone]):
        given = zip(problem.inputs, chosen, strict=True)
        some = [x.shape for x, cut in given if cut and isinstance(x, torch.Tensor)]
        slices = _slices([*shapes, *some])
        if any(chosen) and len(slices) > 1:
            found.append(RowCut(inputs=chosen, rows=slices))
    return found


def _dense(some: torch.Tensor, whole: torch.Tensor) -> torch.Tensor:
    """Return some rows of a tensor, laid out as it is."""
    return torch.empty_like(whole[: len(some)]).copy_(some)


def _joined(parts: Sequence[torch.Tensor], rows: int) -> torch.Tensor:
    """Return the limits of all rows from those of every fourth, or the widest of what holds for all rows."""
    if parts[0].shape[0] == 1:
        return torch.stack([*parts]).amax(0)
    joined = parts[0].new_empty((rows, *parts[0].shape[1:]))
    for first, part in enumerate(parts):
        joined[first :: len(parts)] = part
    return joined


def _same(found: torch.Tensor, known: torch.Tensor, slack: Slack) -> bool:
    """Say whether two truths are one, but for the order of their sums."""
    if torch.equal(found, known):
        return True
    difference = (found - known).abs_()
    if bool((difference <= known.abs().mul_(_ULP)).all()):
        return True
    return bool((difference <= slack.margin(known).mul_(_SAME)).all())


def _slices(shapes: Sequence[torch.Size]) -> tuple[slice, ...]:
    """Return slices of rows as the largest tensor is cut by `pieces`."""
    largest = max(shapes, key=lambda shape: shape.numel())
    return tuple(pieces(torch.empty(largest, device="meta")))
