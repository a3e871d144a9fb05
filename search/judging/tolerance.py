"""What is right: the truth in float64, and how far from it an answer may be."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from kb.errors import TaskError
from search import seeds
from search.judging import inputs as distributions
from search.reference import Problem, as_tuple

_FACTOR = 8.0  # of the framework's own error: less than a decimal digit
_EPS = 2.0**-23
_HALF = 2.0**-11
_TINY = 2.0**-126  # what lies below may be flushed to zero
_KERNELBENCH = (1e-4, 1e-4)  # absolute, relative
_FEW, _DRAWS = 1024, 5  # elements of an answer; roundings of the inputs that are tried
_MOST_BYTES = 1 << 30  # of all trials together; beyond it only the most telling are kept
_TELLING = ("task", "large mean", "negative", "normal")


@dataclass(frozen=True, slots=True, kw_only=True)
class InputTrial:
    """One set of inputs with the bounds of a right answer.

    Attributes:
        low, high: for each output, the least and the greatest allowed element.
        slack: for each output, the error that is allowed on other inputs of this distribution.
        special: the reference's output where it may be infinite or NaN, else None.
    """

    distribution: str
    inputs: tuple[Any, ...]
    low: tuple[torch.Tensor, ...]
    high: tuple[torch.Tensor, ...]
    slack: tuple[tuple[float, float], ...]
    special: tuple[torch.Tensor, ...] | None = None

    def truth(self, number: int) -> torch.Tensor:
        """Return output `number` in float64, up to the rounding of its bounds."""
        return (self.low[number].double() + self.high[number].double()) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSet:
    """The trials of a task, the same for each of its candidates, unknown to all of them.

    Attributes:
        slack: by output, (absolute, relative) error allowed on inputs of ``get_inputs()``.
        dropped: distributions that the reference cannot take, with the reason.
    """

    trials: tuple[InputTrial, ...]
    slack: tuple[tuple[float, float], ...]
    dropped: tuple[tuple[str, str], ...]


class Truth:
    """The reference in float64."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self.model = copy.deepcopy(problem.model).double()

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
            state = {name: _widen(value, moved) for name, value in self._problem.state.items()}
            return as_tuple(torch.func.functional_call(self.model, state, wide))


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


def make_bank(problem: Problem, seed: int | None = None, room: int = _MOST_BYTES) -> TrialSet:
    """Draw the trials of `problem` and bound the right answers.

    Args:
        seed: that the draws follow from; None for a secret one each.
        room: bytes that the trials may take together.

    Raises:
        TaskError: the reference cannot run in float64, or a trivial answer passes every trial.
    """
    truth = Truth(problem)
    names = list(distributions.DISTRIBUTIONS)
    if problem.task.settings.special_values:
        names.append(distributions.SPECIAL)
    trials: list[InputTrial] = []
    dropped: list[tuple[str, str]] = []
    slack: tuple[tuple[float, float], ...] = ()
    for number, name in enumerate(("task", *names)):
        # The second set of the task's own inputs is what catches an answer kept from the first.
        if room <= 0 and name not in _TELLING:
            dropped.append((name, "the tensors are too large to keep this many"))
            continue
        try:
            drawn = seeds.secret() if seed is None else seed + 7919 * (number + 1)
            made = _trial(problem, truth, name, drawn)
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
        trial, allowed = made
        slack = slack or allowed
        trials.append(trial)
        room -= _nbytes(trial)
    bank = TrialSet(trials=tuple(trials), slack=slack, dropped=tuple(dropped))
    _probe(problem, bank)
    return bank


def _nbytes(trial: InputTrial) -> int:
    tensors = [*trial.low, *trial.high, *(x for x in trial.inputs if isinstance(x, torch.Tensor))]
    return sum(tensor.nbytes for tensor in tensors)


def _trial(
    problem: Problem, truth: Truth, name: str, seed: int
) -> tuple[InputTrial, tuple[tuple[float, float], ...]] | str:
    """Return a trial with its (absolute, relative) slack, or why it cannot be one."""
    inputs = distributions.draw(problem, name, seed)
    eager = problem.run(*(x.clone() if isinstance(x, torch.Tensor) else x for x in inputs))
    special = name == distributions.SPECIAL
    exact = truth(inputs)
    if not special and not all(
        bool(torch.isfinite(value).all()) for value in (*eager, *(value.float() for value in exact))
    ):
        return "the reference's output is not finite"
    slack = _slack(problem, truth, inputs, exact, eager)
    low, high = [], []
    least = torch.tensor(-math.inf, device=exact[0].device)
    for value, (absolute, relative) in zip(exact, slack, strict=True):
        margin = absolute + relative * value.abs()
        # Rounding the bounds outwards keeps an exact answer inside.
        low.append(torch.nextafter((value - margin).float(), least))
        high.append(torch.nextafter((value + margin).float(), -least))
    trial = InputTrial(
        distribution=name,
        inputs=inputs,
        low=tuple(low),
        high=tuple(high),
        slack=slack,
        special=eager if special else None,
    )
    return trial, slack


def _slack(
    problem: Problem,
    truth: Truth,
    inputs: tuple[Any, ...],
    exact: tuple[torch.Tensor, ...],
    eager: tuple[torch.Tensor, ...],
) -> tuple[tuple[float, float], ...]:
    """Return by output the (absolute, relative) error that the task's precision allows."""
    precision = problem.task.settings.precision
    if not isinstance(precision, str):
        return tuple((precision.absolute, precision.relative) for _ in exact)
    if precision == "kernelbench":
        return tuple(_KERNELBENCH for _ in exact)
    generator = torch.Generator(exact[0].device).manual_seed(problem.seed)
    # The greatest error of few elements is a matter of luck: it is sought in several draws.
    draws = _DRAWS if sum(x.numel() for x in exact) <= _FEW else 1
    jittered = [truth(inputs, lambda x: _jitter(x, generator)) for _ in range(draws)]
    rounded = None
    unit = _EPS
    if precision in {"tf32", "half"}:
        rounded = truth(inputs, _to_tf32 if precision == "tf32" else _to_half)
        unit = _HALF
    slack = []
    for number, value in enumerate(exact):
        # Sums of n terms differ by about log n roundings in a tree, by sqrt n one after the other.
        read = max(x.numel() for x in inputs if isinstance(x, torch.Tensor))
        terms = max(1.0, read / value.numel())
        relative = unit * max(2.0, math.log2(terms) / 2, min(math.sqrt(terms) / 2, 16.0))
        if rounded is not None:
            relative = unit
        magnitude = value.abs()
        worst = max(
            _excess(eager[number].double(), value, relative * magnitude),
            *(2 * _excess(moved[number], value, 0.0) for moved in jittered),
            0.0 if rounded is None else _excess(rounded[number], value, relative * magnitude),
        )
        slack.append((_FACTOR * max(worst, _TINY), _FACTOR * relative))
    return tuple(slack)


def _excess(got: torch.Tensor, exact: torch.Tensor, free: torch.Tensor | float) -> float:
    error = ((got - exact).abs() - free).nan_to_num(0.0, 0.0, 0.0)
    return max(float(error.max()), 0.0)


def _jitter(value: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Move every element by half a unit in its last place: the error that a right answer may have."""
    where = generator.device
    sign = torch.randint(2, value.shape, generator=generator, dtype=torch.int8, device=where)
    sign = sign.double() * 2 - 1
    return value.double() * (1 + sign * _EPS / 2)


def _to_tf32(value: torch.Tensor) -> torch.Tensor:
    """Round to ten bits of mantissa, as tensor cores read float32."""
    if value.dtype is not torch.float32:
        return value
    bits = value.contiguous().view(torch.int32)
    return ((bits + 0x1000) & ~0x1FFF).view(torch.float32)


def _to_half(value: torch.Tensor) -> torch.Tensor:
    return value.clamp(-65504, 65504).half().to(value.dtype)


def inside(trial: InputTrial, outputs: tuple[torch.Tensor, ...]) -> bool:
    """Say whether every element of `outputs` is within the trial's bounds."""
    for number, got in enumerate(outputs):
        fine = (got >= trial.low[number]) & (got <= trial.high[number])
        if trial.special is not None:
            wanted = trial.special[number]
            odd = ~torch.isfinite(wanted)
            same = (got == wanted) | (torch.isnan(got) & torch.isnan(wanted))
            fine = torch.where(odd, same, fine)
        if not bool(fine.all()):
            return False
    return True


def _probe(problem: Problem, bank: TrialSet) -> None:
    """Try answers that took no work; refuse a task that one of them solves."""
    kinds: dict[str, Callable[[int], tuple[torch.Tensor, ...] | None]] = {
        "all zeros": lambda at: tuple(torch.zeros_like(x) for x in bank.trials[at].low),
        "a constant": lambda at: tuple(
            # Of a single element the mean is the answer: there one constant must do for all trials.
            torch.full_like(
                x, float(bank.trials[at if x.numel() > 1 else 0].truth(n).nan_to_num().mean())
            )
            for n, x in enumerate(bank.trials[at].low)
        ),
        "the answer to other inputs": lambda at: tuple(
            bank.trials[at - 1].truth(n).float() for n in range(len(bank.trials[at].low))
        ),
    }
    for place, value in enumerate(problem.inputs):
        if isinstance(value, torch.Tensor) and value.dtype is torch.float32:
            kinds[f"input {place} itself"] = _echo(bank, place)
    for what, answer in kinds.items():
        answers = [answer(at) for at in range(len(bank.trials))]
        if all(
            given is not None and inside(trial, given)
            for trial, given in zip(bank.trials, answers, strict=True)
        ):
            raise TaskError(
                f"{problem.task.reference}: {what} would pass as an answer at precision "
                f"{problem.task.settings.precision}: use precision: strict, or a reference whose output depends on "
                "its inputs"
            )


def _echo(bank: TrialSet, place: int) -> Callable[[int], tuple[torch.Tensor, ...] | None]:
    def answer(at: int) -> tuple[torch.Tensor, ...] | None:
        given = bank.trials[at].inputs[place]
        fits = all(given.shape == value.shape for value in bank.trials[at].low)
        return tuple(given for _ in bank.trials[at].low) if fits else None

    return answer
