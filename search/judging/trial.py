"""Trials: secret inputs with the bounds of a right answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from search.costs.graph import OperatorGraph
from search.costs.sums import longest_recurrence, longest_sum
from search.judging import inputs as distributions
from search.judging.bounds import Slack, pieces
from search.judging.indices import IndexLookup
from search.judging.truth.factors import FactorLookup
from search.reference import Problem

_EDGES = 8  # bytes of an element's bounds, two numbers in float32


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialBounds:
    """One set of inputs with the bounds of a right answer.

    Attributes:
        low, high: for each output, the least and the greatest allowed element; of an output that holds
            indices, the value at the index.
        special: the reference's output where it may be infinite or NaN, else None.
        written: the truth there from operators that are written out as others, where that can be done.
        whole: for each output of integers or booleans, or of vectors with a lookup, the reference's own, else None.
        lookups: for each output that holds indices or vectors, how to find what is compared, else None.
    """

    inputs: tuple[Any, ...]
    low: tuple[torch.Tensor, ...]
    high: tuple[torch.Tensor, ...]
    special: tuple[torch.Tensor, ...] | None = None
    written: tuple[torch.Tensor, ...] = ()
    whole: tuple[torch.Tensor | None, ...] = ()
    lookups: tuple[IndexLookup | FactorLookup | None, ...] = ()

    @property
    def nbytes(self) -> int:
        """Bytes that it keeps alive."""
        given = (x for x in self.inputs if isinstance(x, torch.Tensor))
        kept = sum(x.nbytes for x in self.lookups if x)
        return kept + sum(x.nbytes for x in (*self.low, *self.high, *self.written, *given))


class FreshBounds:
    """The bounds of a trial that was just measured: made when they are first asked for, and the truth is let go then.

    Args:
        exact: the truth of each output, in float64.
        make: returns the bounds that follow from it.

    Attributes:
        exact: the same; empty once the bounds were made.
    """

    def __init__(
        self,
        inputs: tuple[Any, ...],
        exact: tuple[torch.Tensor, ...],
        make: Callable[[tuple[torch.Tensor, ...]], TrialBounds],
    ) -> None:
        self.inputs, self.exact, self._make = inputs, exact, make
        self._made: TrialBounds | None = None

    def __call__(self) -> TrialBounds:
        """Return the bounds, the same each time."""
        if self._made is None:
            self._made = self._make(self.exact)
            self.exact = ()
        return self._made

    @property
    def nbytes(self) -> int:
        """Bytes that the bounds keep alive, or would."""
        if self._made is not None:
            return self._made.nbytes
        given = sum(x.nbytes for x in self.inputs if isinstance(x, torch.Tensor))
        return given + sum(_EDGES * x.numel() for x in self.exact)


@dataclass(frozen=True, slots=True, kw_only=True)
class InputTrial:
    """One set of inputs with the bounds of a right answer, kept or made again when it is asked for.

    Attributes:
        slack: for each output, the error that is allowed on other inputs of this distribution.
        limits: for each output, the greatest errors that are usual in slices of it.
        recall: returns the tensors, the same each time.
        given: returns the inputs alone, where they are made again: bounds take memory and time.
        cut: how bounds of rows are found apart, where those of all are not kept; None: they are not.
        part: returns the trial of some of these rows, by what is allowed of the whole; None: it is measured on them.
    """

    distribution: str
    slack: tuple[Slack, ...]
    limits: tuple[tuple[torch.Tensor, ...], ...]
    recall: Callable[[], TrialBounds]
    given: Callable[[], tuple[Any, ...]] | None = None
    cut: RowCut | None = None
    part: Callable[[slice], InputTrial | None] | None = None

    @property
    def fresh(self) -> FreshBounds:
        """The bounds of a trial that was just measured."""
        assert isinstance(self.recall, FreshBounds)
        return self.recall

    @property
    def inputs(self) -> tuple[Any, ...]:
        """What the candidate is given."""
        return self.recall().inputs if self.given is None else self.given()

    @property
    def low(self) -> tuple[torch.Tensor, ...]:
        """The least allowed elements, see `TrialBounds`."""
        return self.recall().low

    @property
    def high(self) -> tuple[torch.Tensor, ...]:
        """The greatest allowed elements."""
        return self.recall().high

    @property
    def special(self) -> tuple[torch.Tensor, ...] | None:
        """The reference's output where it may be infinite or NaN, else None."""
        return self.recall().special if self.distribution == distributions.SPECIAL else None

    @property
    def whole(self) -> tuple[torch.Tensor | None, ...]:
        """The reference's own integers, booleans and vectors."""
        return self.recall().whole

    @property
    def lookups(self) -> tuple[IndexLookup | FactorLookup | None, ...]:
        """How to find what is compared of indices and of vectors."""
        return self.recall().lookups

    def truth(self, number: int) -> torch.Tensor:
        """Return output `number` in float64, up to the rounding of its bounds.

        Of an output that holds indices or vectors, what is compared in their place.
        """
        return self.low[number].double().add_(self.high[number]).div_(2)

    def answer(self, number: int) -> torch.Tensor:
        """Return output `number` as the reference answers it, in its own type."""
        whole = self.whole[number] if self.whole else None
        if whole is not None:
            return whole
        low, high = self.low[number], self.high[number]
        found = torch.empty_like(low)
        for piece in pieces(low):
            part = piece if low.dim() else ...
            found[part] = low[part].double().add_(high[part]).div_(2)
        return found

    def found(
        self, number: int, outputs: Sequence[torch.Tensor]
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return what is compared of output `number`, and which of its indices are permitted ones."""
        lookup, got = self.lookups[number] if self.lookups else None, outputs[number]
        if lookup is not None:
            return lookup.compared(number, outputs)
        # A byte that is neither 0 nor 1 is no truth value: it was never written.
        return (got.view(torch.uint8) if got.dtype is torch.bool else got), None

    def wrong(self, number: int, outputs: Sequence[torch.Tensor]) -> torch.Tensor:
        """Say of each element that is compared of output `number` whether it is outside its bounds."""
        value, permitted = self.found(number, outputs)
        fine = (value >= self.low[number]) & (value <= self.high[number])
        if self.special is not None:
            wanted = self.special[number]
            same = (value == wanted) | (torch.isnan(value) & torch.isnan(wanted))
            # The framework's own infinities and NaN may be its kernel's, as are those of the truth's type.
            fine |= torch.isnan(value) & torch.isnan(self.low[number])
            fine = torch.where(torch.isfinite(wanted), fine, same | fine)
            for other in (wanted, *self.recall().written[number : number + 1]):
                # Beside what is finite in every way of finding it, in which nothing is special.
                odd = ~(
                    torch.isfinite(wanted)
                    & torch.isfinite(other)
                    & torch.isfinite(self.low[number])
                )
                margin = self.slack[number].margin(other.double())
                near = (value == other.to(value.dtype)) | ((value - other).abs() <= margin)
                fine |= odd & (near | (torch.isnan(value) & torch.isnan(other)))
        return ~fine if permitted is None else ~(fine & permitted)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCut:
    """How the rows of an answer are found apart from one another.

    Attributes:
        inputs: of each input, whether its rows are those of the answer.
        rows: that are found at once.
    """

    inputs: tuple[bool, ...]
    rows: tuple[slice, ...]

    def of(self, inputs: Sequence[Any], rows: slice) -> tuple[Any, ...]:
        """Return what some rows of the answer come from."""
        return tuple(x[rows] if cut else x for x, cut in zip(inputs, self.inputs, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """How long the sums are that an answer comes from: how far rounding may move it.

    Attributes:
        terms: by output, of the longest single sum.
        recurrence: roundings of a state that a recurrent layer carries from its first step to its last.
    """

    terms: tuple[int, ...]
    recurrence: int = 1


def sums_of(problem: Problem, graph: OperatorGraph | None) -> Sums:
    """Return how long the sums are that each output comes from.

    Where the reference cannot be traced, no sum is taken to be longer than its longest dimension.
    """
    count = len(problem.outputs)
    if graph is None:
        tensors = (*problem.inputs, *problem.state.values())
        extents = (max(x.shape, default=1) for x in tensors if isinstance(x, torch.Tensor))
        return Sums(terms=(max(extents),) * count)
    single = len(graph.outputs) == count
    each = [(name,) for name in graph.outputs] if single else [graph.outputs] * count
    terms = tuple(longest_sum(graph, names) for names in each)
    return Sums(terms=terms, recurrence=longest_recurrence(graph))


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSet:
    """The trials of a task, the same for each of its candidates, unknown to all of them.

    Attributes:
        dropped: distributions that the reference cannot take, with the reason.
        sums: how long the sums are that an output comes from.
        widened: distributions on which the framework itself uses up the task's tolerances.
        degenerate: the reference's answer is the same for all inputs and parameters.
        cut: how the bounds of rows can be found apart, where that was seen on every trial; else None.
        forget: lets go of the tensors of the trial that was made again last.
        least_factor: by which elements of the inputs may be scaled apart, see `scaled_apart`.
        repeats: other draws of the same distributions are as good, without asking the reference on the host first.
    """

    trials: tuple[InputTrial, ...]
    dropped: tuple[tuple[str, str], ...]
    sums: Sums
    widened: tuple[str, ...] = ()
    degenerate: bool = False
    cut: RowCut | None = None
    forget: Callable[[], None] = lambda: None
    least_factor: float = distributions.FACTORS[0]
    repeats: bool = False

    def measured(self) -> TrialSet | None:
        """Return what `draw_again` draws other trials from; it holds no inputs. None where they must be measured anew."""
        if not self.repeats:
            return None
        # Limits are of these inputs alone, and take memory.
        none = tuple(() for _ in self.sums.terms)
        bare = (
            replace(one, recall=gone, given=None, cut=None, part=None, limits=none)
            for one in self.trials
        )
        return replace(self, trials=tuple(bare), forget=lambda: None)

    def given(self, trials: Sequence[InputTrial], *, forgets: bool) -> Iterator[tuple[Any, ...]]:
        """Yield the inputs of trials, one at a time: each may be drawn anew.

        Args:
            forgets: each is let go when the next is asked for, or whether there is one.
        """
        for trial in trials:
            yield trial.inputs
            if forgets:
                self.forget()

    def parts(
        self, inputs: tuple[Any, ...], *answers: tuple[torch.Tensor, ...]
    ) -> Iterator[tuple[tuple[Any, ...], ...]]:
        """Yield inputs with the answers to them, some rows at a time where rows stand apart."""
        if self.cut is None:
            yield (inputs, *answers)
            return
        for rows in self.cut.rows:
            some = (tuple(value[rows] for value in answer) for answer in answers)
            yield (self.cut.of(inputs, rows), *some)

    @property
    def slack(self) -> tuple[Slack, ...]:
        """By output, the error allowed on inputs of ``get_inputs()``."""
        return self.trials[0].slack

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know of the bounds, a line each."""
        if self.degenerate:
            return (
                "degenerate: the reference answers the same for all inputs and parameters; whatever is gained is "
                "counted apart, and teaches nothing",
            )
        if not self.widened:
            return ()
        names = ", ".join(f"'{name}'" for name in self.widened)
        return (
            f"tolerances: the framework itself comes near them or beyond on inputs of {names}; there an answer may be "
            "as far off as `precision: strict` lets it",
        )

    @property
    def another_draw(self) -> tuple[Any, ...]:
        """A draw of ``get_inputs()`` that is not the problem's own."""
        return next(x for x in reversed(self.trials) if x.distribution == "task").inputs


def gone() -> TrialBounds:
    """Stand for bounds that nobody may ask for any more."""
    raise AssertionError


def inside(trial: InputTrial, outputs: tuple[torch.Tensor, ...]) -> bool:
    """Say whether every element of `outputs` is within the trial's bounds."""
    return not any(_any(trial.wrong(number, outputs)) for number in range(len(outputs)))


def _any(values: torch.Tensor) -> bool:
    """Say whether one is true; on a processor the greatest byte is found in a tenth of the time."""
    return bool(values.numel() and values.view(torch.uint8).max())
