"""What is right: the truth in float64, and how far from it an answer may be."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch

from kb.errors import TaskError
from search import seeds
from search.costs.graph import OperatorGraph
from search.costs.sums import longest_sum
from search.costs.trace import operator_graph
from search.judging import inputs as distributions
from search.judging.bounds import Slack, growth, measured_slack, told_slack
from search.judging.indices import IndexLookup, IndexWatch
from search.judging.precision import rule
from search.reference import WHOLE, Problem, as_tuple, scaled

_EPS = 2.0**-23
_KERNELBENCH = (1e-4, 1e-4)  # absolute, relative
_FEW, _DRAWS, _LEAST_DRAWS = 1024, 5, 2  # elements of an answer; roundings of its inputs
_USED = 4  # the framework takes more than this part of a tolerance: it was made for other inputs
_SAME_SHARE, _SAME = 1e-6, 1e-9  # relative and absolute: of two truths that are one
_WIDER = 8  # times the rounding of inputs that may turn an integer or a boolean over
_MOST_BYTES = 1 << 30  # of all trials together; beyond it they are made again when asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialBounds:
    """One set of inputs with the bounds of a right answer.

    Attributes:
        low, high: for each output, the least and the greatest allowed element; of an output that holds
            indices, the value at the index.
        special: the reference's output where it may be infinite or NaN, else None.
        whole: for each output of integers or booleans, the reference's own, else None.
        lookups: for each output that holds indices, how to find the values at them, else None.
    """

    inputs: tuple[Any, ...]
    low: tuple[torch.Tensor, ...]
    high: tuple[torch.Tensor, ...]
    special: tuple[torch.Tensor, ...] | None = None
    whole: tuple[torch.Tensor | None, ...] = ()
    lookups: tuple[IndexLookup | None, ...] = ()

    @property
    def nbytes(self) -> int:
        """Bytes that it keeps alive."""
        given = (x for x in self.inputs if isinstance(x, torch.Tensor))
        kept = sum(x.nbytes for x in self.lookups if x)
        return kept + sum(x.nbytes for x in (*self.low, *self.high, *given))


@dataclass(frozen=True, slots=True, kw_only=True)
class InputTrial:
    """One set of inputs with the bounds of a right answer, kept or made again when it is asked for.

    Attributes:
        slack: for each output, the error that is allowed on other inputs of this distribution.
        limits: for each output, the greatest errors that are usual in slices of it.
        recall: returns the tensors, the same each time.
    """

    distribution: str
    slack: tuple[Slack, ...]
    limits: tuple[tuple[torch.Tensor, ...], ...]
    recall: Callable[[], TrialBounds]

    @property
    def inputs(self) -> tuple[Any, ...]:
        """What the candidate is given."""
        return self.recall().inputs

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
        """The reference's own integers and booleans."""
        return self.recall().whole

    @property
    def lookups(self) -> tuple[IndexLookup | None, ...]:
        """How to find the values at indices."""
        return self.recall().lookups

    def truth(self, number: int) -> torch.Tensor:
        """Return output `number` in float64, up to the rounding of its bounds.

        Of an output that holds indices, the values at them.
        """
        return (self.low[number].double() + self.high[number].double()) / 2

    def answer(self, number: int) -> torch.Tensor:
        """Return output `number` as the reference answers it, in its own type."""
        whole = self.whole[number] if self.whole else None
        return self.truth(number).float() if whole is None else whole

    def found(self, number: int, got: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return what is compared of an output, and which of its indices are permitted ones."""
        lookup = self.lookups[number] if self.lookups else None
        if lookup is not None:
            return lookup.values(got)
        # A byte that is neither 0 nor 1 is no truth value: it was never written.
        return (got.view(torch.uint8) if got.dtype is torch.bool else got), None

    def wrong(self, number: int, got: torch.Tensor) -> torch.Tensor:
        """Say of each element whether it is outside its bounds."""
        value, permitted = self.found(number, got)
        fine = (value >= self.low[number]) & (value <= self.high[number])
        if self.special is not None:
            wanted = self.special[number]
            same = (value == wanted) | (torch.isnan(value) & torch.isnan(wanted))
            fine = torch.where(torch.isfinite(wanted), fine, same)
        return ~fine if permitted is None else ~(fine & permitted)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSet:
    """The trials of a task, the same for each of its candidates, unknown to all of them.

    Attributes:
        dropped: distributions that the reference cannot take, with the reason.
        terms: by output, of the longest sum that it comes from.
        widened: distributions on which the framework itself uses up the task's tolerances.
        degenerate: the reference's answer is the same for all inputs and parameters.
    """

    trials: tuple[InputTrial, ...]
    dropped: tuple[tuple[str, str], ...]
    terms: tuple[int, ...]
    widened: tuple[str, ...] = ()
    degenerate: bool = False

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
    def task_inputs(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Two draws of ``get_inputs()``."""
        own = [trial.inputs for trial in self.trials if trial.distribution == "task"]
        return own[0], own[-1]


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
        self, inputs: tuple[Any, ...], moved: Callable[[torch.Tensor], torch.Tensor] | None = None
    ) -> tuple[torch.Tensor, ...]:
        """Return what it computes.

        Args:
            moved: applied to every floating-point input and parameter first, e.g. a rounding.
        """
        with _default_double(), torch.no_grad():
            wide = tuple(_widen(value, moved) for value in inputs)
            if moved is None:
                return as_tuple(self.model(*wide))
            state = {name: _widen(value, moved) for name, value in self._state.items()}
            return as_tuple(torch.func.functional_call(self.model, state, wide))

    def values(
        self, inputs: tuple[Any, ...], moved: Callable[[torch.Tensor], torch.Tensor] | None = None
    ) -> tuple[torch.Tensor, ...]:
        """Return the same, with values in place of the indices that stand for them."""
        return watched(self._problem, lambda: self(inputs, moved)).values


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """An answer of the reference, and the values at the indices in it."""

    outputs: tuple[torch.Tensor, ...]
    values: tuple[torch.Tensor, ...]
    lookups: tuple[IndexLookup | None, ...]


def _plain(outputs: tuple[torch.Tensor, ...]) -> Watched:
    return Watched(outputs=outputs, values=outputs, lookups=(None,) * len(outputs))


def watched(problem: Problem, run: Callable[[], tuple[torch.Tensor, ...]]) -> Watched:
    """Run the reference, and find the values at the indices that it answers."""
    if not problem.special:
        return _plain(run())
    with IndexWatch() as watch:
        outputs = run()
    lookups = tuple(
        watch.lookup(value) if layout.dtype in WHOLE else None
        for value, layout in zip(outputs, problem.outputs, strict=True)
    )
    values = tuple(
        value if lookup is None else lookup.values(value)[0]
        for value, lookup in zip(outputs, lookups, strict=True)
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


def make_bank(
    problem: Problem,
    seed: int | None = None,
    room: int = _MOST_BYTES,
    graph: OperatorGraph | None = None,
) -> TrialSet:
    """Draw the trials of `problem` and bound the right answers.

    Args:
        seed: that the draws follow from; None for a secret one each.
        room: bytes that the trials may take together; those beyond are drawn again from their seeds when
            they are asked for, one at a time.
        graph: of the reference, traced here where it is not given.

    Raises:
        TaskError: the reference cannot run in float64, or a trivial answer passes every trial.
    """
    truth = Truth(problem)
    terms = _terms(problem, graph)
    trials: list[InputTrial] = []
    dropped: list[tuple[str, str]] = []
    widened: list[str] = []
    shelf: dict[int, TrialBounds] = {}
    for number, name in enumerate(_names(problem)):
        # The second set of the task's own inputs is what catches an answer kept from the first.
        try:
            drawn = seeds.secret() if seed is None else seed + 7919 * (number + 1)
            made = _trial(problem, truth, name, drawn, terms)
        except Exception as error:
            first = (str(error).strip().splitlines() or [type(error).__name__])[0]
            if name == "task":
                raise TaskError(
                    f"{problem.task.reference}: the reference cannot run in float64 ({first[:200]}): do not fix "
                    "dtypes inside forward"
                ) from error
            dropped.append((name, f"the reference refuses it: {first[:120]}"))
            continue
        if isinstance(made, str):
            dropped.append((name, made))
            continue
        room -= made.recall().nbytes
        if room < 0:
            made = replace(made, recall=_redrawn(problem, truth, made, drawn, terms, shelf))
        trials.append(made)
        if any(slack.told is not None and slack.seen is not None for slack in made.slack):
            widened.append(name)
    bank = TrialSet(
        trials=tuple(trials), dropped=tuple(dropped), terms=terms, widened=tuple(widened)
    )
    return replace(bank, degenerate=_probe(problem, bank))


def _names(problem: Problem) -> tuple[str, ...]:
    settings = problem.task.settings
    wide = (distributions.WIDE,) if rule(problem) == "tf32" else ()
    special = (distributions.SPECIAL,) if settings.special_values else ()
    return ("task", *distributions.DISTRIBUTIONS, *wide, *special)


def _terms(problem: Problem, graph: OperatorGraph | None) -> tuple[int, ...]:
    """Return for each output the terms of the longest sum that it comes from.

    Where the reference cannot be traced, no sum is taken to be longer than its longest dimension.
    """
    count = len(problem.outputs)
    if graph is None:
        try:
            graph = operator_graph(problem)
        except TaskError:
            tensors = (*problem.inputs, *problem.state.values())
            extents = (max(x.shape, default=1) for x in tensors if isinstance(x, torch.Tensor))
            return (max(extents),) * count
    if len(graph.outputs) == count:
        return tuple(longest_sum(graph, (name,)) for name in graph.outputs)
    return (longest_sum(graph, graph.outputs),) * count


def _trial(
    problem: Problem, truth: Truth, name: str, seed: int, terms: tuple[int, ...]
) -> InputTrial | str:
    """Return a trial, or why it cannot be one."""
    inputs = distributions.draw(problem, name, seed)
    return _bounded(problem, truth, name, inputs, _answered(problem, inputs), terms)


def _answered(
    problem: Problem, inputs: tuple[Any, ...], state: Mapping[str, torch.Tensor] | None = None
) -> Watched:
    return watched(problem, lambda: problem.run(*inputs, state=state))


def _redrawn(
    problem: Problem,
    truth: Truth,
    made: InputTrial,
    seed: int,
    terms: tuple[int, ...],
    shelf: dict[int, TrialBounds],
) -> Callable[[], TrialBounds]:
    """Return what makes the tensors of a trial again, from the seed that they were drawn from.

    Args:
        shelf: where the tensors of one trial are kept, those that were asked for last.
    """
    name, slack, limits = made.distribution, made.slack, made.limits

    def recall() -> TrialBounds:
        if seed not in shelf:
            shelf.clear()  # first: there is room for one
            if problem.special or name == distributions.SPECIAL:
                again = _trial(problem, truth, name, seed, terms)
                assert isinstance(again, InputTrial)
                shelf[seed] = again.recall()
            else:
                inputs = distributions.draw(problem, name, seed)
                low, high = _edges(truth(inputs), slack, limits)
                shelf[seed] = TrialBounds(inputs=inputs, low=low, high=high)
        return shelf[seed]

    return recall


def _edges(
    exact: Sequence[torch.Tensor],
    slack: Sequence[Slack],
    limits: Sequence[tuple[torch.Tensor, ...]],
) -> tuple[tuple[torch.Tensor, ...], tuple[torch.Tensor, ...]]:
    """Return the least and the greatest that each element may be, rounded outwards to float32."""
    low, high = [], []
    least = torch.tensor(-math.inf, device=exact[0].device)
    for value, allowed, usual in zip(exact, slack, limits, strict=True):
        margin = allowed.margin(value.double(), *usual)
        low.append(torch.nextafter((value - margin).float(), least))
        high.append(torch.nextafter((value + margin).float(), -least))
    return tuple(low), tuple(high)


def bounds_of(
    problem: Problem,
    bank: TrialSet,
    name: str,
    inputs: tuple[Any, ...],
    eager: tuple[torch.Tensor, ...],
    state: Mapping[str, torch.Tensor] | None,
) -> InputTrial | None:
    """Return the bounds of a right answer to these very inputs, None where no answer can be bounded.

    What is allowed on a trial's inputs is nearly what is allowed on others of its distribution. Where one
    element decides how exact an answer can be, it is not.

    Args:
        eager: the framework's answer to them.
        state: the parameters, where they are not the problem's own.
    """
    # The values at indices are known only where the framework is seen to look for them.
    answered = _answered(problem, inputs, state) if problem.special else _plain(eager)
    made = _bounded(problem, Truth(problem, state), name, inputs, answered, bank.terms)
    return None if isinstance(made, str) else made


def _bounded(
    problem: Problem,
    truth: Truth,
    name: str,
    inputs: tuple[Any, ...],
    answered: Watched,
    terms: tuple[int, ...],
) -> InputTrial | str:
    known = watched(problem, lambda: truth(inputs))
    eager, exact = answered.values, tuple(value.double() for value in known.values)
    special = name == distributions.SPECIAL
    if not special and not all(
        bool(torch.isfinite(value).all()) for value in (*eager, *(value.float() for value in exact))
    ):
        return "the reference's output is not finite"
    errors = [_error(one, other) for one, other in zip(eager, exact, strict=True)]
    told = _told(problem)
    bounds: list[tuple[Slack, tuple[torch.Tensor, ...]]]
    if told is not None and _keeps(errors, exact, told):
        bounds = [(told_slack(*told), ()) for _ in exact]
    else:
        _move(problem, truth, inputs, exact, errors, terms)
        precision = "strict" if told is not None else rule(problem)
        one_sided = name in distributions.ONE_SIDED
        bounds = [
            measured_slack(value, error, count, precision, one_sided=one_sided)
            for value, error, count in zip(exact, errors, terms, strict=True)
        ]
        bounds = [(replace(slack, told=told), limits) for slack, limits in bounds]
    slack = [one for one, _ in bounds]
    limits = tuple(usual for _, usual in bounds)
    low, high = (list(edge) for edge in _edges(exact, slack, limits))
    for number, (least, greatest) in _met(problem, truth, inputs, answered, known).items():
        low[number], high[number], slack[number] = least, greatest, told_slack(0.0, 0.0)
    kept = TrialBounds(
        inputs=inputs,
        low=tuple(low),
        high=tuple(high),
        special=eager if special else None,
        whole=tuple(
            value.to(layout.dtype) if layout.dtype in WHOLE else None
            for value, layout in zip(known.outputs, problem.outputs, strict=True)
        ),
        lookups=known.lookups,
    )
    return InputTrial(distribution=name, slack=tuple(slack), limits=limits, recall=lambda: kept)


def _met(
    problem: Problem,
    truth: Truth,
    inputs: tuple[Any, ...],
    answered: Watched,
    known: Watched,
) -> dict[int, tuple[torch.Tensor, torch.Tensor]]:
    """Return by output of integers or booleans, which are no indices, the least and greatest that are right.

    They are the same nearly everywhere. Where rounding decides what an element is, both are right: the
    framework's, the truth's, and what changes of the inputs by some roundings make of it.
    """
    numbers = [
        number
        for number, (layout, lookup) in enumerate(zip(problem.outputs, known.lookups, strict=True))
        if layout.dtype in WHOLE and lookup is None
    ]
    seen = [answered.outputs, known.outputs]
    tensors = (*inputs, *problem.state.values())
    if numbers and any(isinstance(x, torch.Tensor) and x.is_floating_point() for x in tensors):
        generator = torch.Generator(known.outputs[0].device).manual_seed(problem.seed)
        moves = [lambda x: _jitter(x, generator, _WIDER)] * _LEAST_DRAWS
        seen += [truth(inputs, move) for move in (*moves, *_ROUNDINGS.get(rule(problem), ()))]
    found = {}
    for number in numbers:
        dtype = problem.outputs[number].dtype
        kept = torch.uint8 if dtype is torch.bool else dtype
        stacked = [outputs[number].to(dtype).to(kept) for outputs in seen]
        least, greatest = stacked[0], stacked[0]
        for other in stacked[1:]:
            least, greatest = torch.minimum(least, other), torch.maximum(greatest, other)
        found[number] = (least, greatest)
    return found


def _told(problem: Problem) -> tuple[float, float] | None:
    """Return the absolute and relative tolerance that the task gives, if it gives any."""
    precision = problem.task.settings.precision
    if not isinstance(precision, str):
        return precision.absolute, precision.relative
    return _KERNELBENCH if precision == "kernelbench" else None


def _keeps(
    errors: Sequence[torch.Tensor], exact: Sequence[torch.Tensor], told: tuple[float, float]
) -> bool:
    """Say whether the framework's errors are well within tolerances, another right answer's too."""
    return all(
        bool((_USED * error <= value.abs() * told[1] + told[0]).all())
        for error, value in zip(errors, exact, strict=True)
    )


def _move(
    problem: Problem,
    truth: Truth,
    inputs: tuple[Any, ...],
    exact: tuple[torch.Tensor, ...],
    errors: list[torch.Tensor],
    terms: tuple[int, ...],
) -> None:
    """Raise `errors` to what changes of the inputs by their own rounding make of the truth."""
    generator = torch.Generator(exact[0].device).manual_seed(problem.seed)
    # The error of few elements is a matter of luck: it is sought in several draws.
    draws = _DRAWS if sum(x.numel() for x in exact) <= _FEW else _LEAST_DRAWS
    for _ in range(draws):
        moved = truth.values(inputs, lambda x: _jitter(x, generator))
        for number, value in enumerate(moved):
            error = _error(value, exact[number]).mul_(2 * growth(terms[number]))
            torch.maximum(errors[number], error, out=errors[number])
    for rounding in _ROUNDINGS.get(rule(problem), ()):
        for number, value in enumerate(truth.values(inputs, rounding)):
            error = _error(value, exact[number])
            torch.maximum(errors[number], error, out=errors[number])


def _error(got: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    return (got.double() - exact).abs_().nan_to_num_(0.0, 0.0, 0.0)


def _jitter(value: torch.Tensor, generator: torch.Generator, times: int = 1) -> torch.Tensor:
    """Move every element by half a unit in its last place: the error that a right answer may have.

    Args:
        times: so many half units instead.
    """
    where = generator.device
    sign = torch.randint(2, value.shape, generator=generator, dtype=torch.int8, device=where)
    sign = sign.double() * 2 - 1
    return value.double() * (1 + sign * times * _EPS / 2)


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


_ROUNDINGS = {"tf32": (_to_tf32, _cut_to_tf32), "half": (_to_half,)}


def inside(trial: InputTrial, outputs: tuple[torch.Tensor, ...]) -> bool:
    """Say whether every element of `outputs` is within the trial's bounds."""
    return not any(bool(trial.wrong(number, got).any()) for number, got in enumerate(outputs))


def _probe(problem: Problem, bank: TrialSet) -> bool:
    """Try answers that took no work; refuse a task that one of them solves, unless it is degenerate.

    Returns:
        Whether it is.
    """

    def answers_to(at: int) -> tuple[torch.Tensor, ...]:
        trial = bank.trials[at]
        return tuple(trial.answer(number) for number in range(len(trial.low)))

    kinds: dict[str, Callable[[int], tuple[torch.Tensor, ...] | None]] = {
        "all zeros": lambda at: tuple(torch.zeros_like(x) for x in answers_to(at)),
        "a constant": lambda at: tuple(
            # Of a single element the mean is the answer: there one constant must do for all trials.
            _mean(x if x.numel() > 1 else first)
            for x, first in zip(answers_to(at), answers_to(0), strict=True)
        ),
        "the answer to other inputs": lambda at: answers_to(at - 1),
    }
    for place, value in enumerate(problem.inputs):
        if isinstance(value, torch.Tensor):
            kinds[f"input {place} itself"] = _echo(bank, place)
    for what, answer in kinds.items():
        if all(
            (given := answer(at)) is not None and inside(trial, given)
            for at, trial in enumerate(bank.trials)
        ):
            if _is_constant(problem, bank):
                return True
            raise TaskError(
                f"{problem.task.reference}: {what} would pass as an answer at precision "
                f"{problem.task.settings.precision}: use precision: strict, or a reference whose output depends on "
                "its inputs"
            )

    return False


def _is_constant(problem: Problem, bank: TrialSet) -> bool:
    """Say whether the truth is the same on every trial, and with other parameters."""
    first = bank.trials[0]
    others = [trial for trial in bank.trials if trial.special is None]
    for number in range(len(first.low)):
        wanted = first.truth(number)
        if not all(_equals(trial.truth(number), wanted) for trial in others):
            return False
    for state in (scaled(problem.state), problem.initial_state):
        for number, value in enumerate(Truth(problem, state).values(first.inputs)):
            if not _equals(value.double(), first.truth(number)):
                return False
    return True


def _equals(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.allclose(one, other, rtol=_SAME_SHARE, atol=_SAME)


def _mean(answer: torch.Tensor) -> torch.Tensor:
    """Return the mean of an answer in each of its places, rounded where it is of whole numbers."""
    mean = float(answer.double().nan_to_num().mean())
    return torch.full_like(answer, round(mean) if answer.dtype in WHOLE else mean)


def _echo(bank: TrialSet, place: int) -> Callable[[int], tuple[torch.Tensor, ...] | None]:
    def answer(at: int) -> tuple[torch.Tensor, ...] | None:
        trial, given = bank.trials[at], bank.trials[at].inputs[place]
        wanted = [trial.answer(number) for number in range(len(trial.low))]
        fits = all(given.shape == x.shape and given.dtype == x.dtype for x in wanted)
        return tuple(given for _ in wanted) if fits else None

    return answer
