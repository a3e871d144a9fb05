"""Answers that take no work: a task that one of them solves is refused, or marked degenerate."""

from __future__ import annotations

from collections.abc import Callable

import torch

from kb.errors import TaskError
from search.judging.inputs import scaled
from search.judging.trial import InputTrial, TrialSet, inside
from search.judging.truth.reference import Truth
from search.reference import WHOLE, Problem

_SAME_SHARE, _SAME = 1e-6, 1e-9  # relative and absolute: of two truths that are one
_PIECE = (
    1 << 26
)  # elements whose mean is taken at once: where there are gigabytes, each copy counts


def probe(problem: Problem, bank: TrialSet) -> bool:
    """Try answers that took no work; refuse a task that one of them solves, unless it is degenerate.

    Returns:
        Whether it is.
    """

    def answers_to(at: int) -> tuple[torch.Tensor, ...]:
        trial = bank.trials[at]
        return tuple(trial.answer(number) for number in range(len(trial.low)))

    kinds: dict[str, Callable[[int], tuple[torch.Tensor, ...] | None]] = {
        "all zeros": lambda at: tuple(torch.zeros_like(x) for x in answers_to(at)),
        # Of a single element the mean is the answer: there one constant must do for all trials.
        "a constant": lambda at: tuple(
            _mean(x if x.numel() > 1 else bank.trials[0].answer(number))
            for number, x in enumerate(answers_to(at))
        ),
        "the answer to other inputs": lambda at: answers_to(at - 1),
    }
    for place, value in enumerate(problem.inputs):
        if isinstance(value, torch.Tensor):
            kinds[f"input {place} itself"] = _echo(bank, place)
    for what, answer in kinds.items():
        if all(_passes(trial, answer(at)) for at, trial in enumerate(bank.trials)):
            if _is_constant(problem, bank):
                return True
            raise TaskError(
                f"{problem.task.reference}: {what} would pass as an answer at precision "
                f"{problem.task.settings.precision}: use precision: strict, or a reference whose output depends on "
                "its inputs"
            )

    return False


def _passes(trial: InputTrial, answer: tuple[torch.Tensor, ...] | None) -> bool:
    return answer is not None and inside(trial, answer)


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
    parts = torch.split(answer.reshape(-1), _PIECE)
    total = sum(float(part.nan_to_num().sum(dtype=torch.float64)) for part in parts)
    mean = total / max(answer.numel(), 1)
    return torch.full_like(answer, round(mean) if answer.dtype in WHOLE else mean)


def _echo(bank: TrialSet, place: int) -> Callable[[int], tuple[torch.Tensor, ...] | None]:
    def answer(at: int) -> tuple[torch.Tensor, ...] | None:
        trial, given = bank.trials[at], bank.trials[at].inputs[place]
        wanted = [
            low if whole is None else whole
            for low, whole in zip(trial.low, trial.whole or (None,) * len(trial.low), strict=True)
        ]
        fits = all(given.shape == x.shape and given.dtype == x.dtype for x in wanted)
        return tuple(given for _ in wanted) if fits else None

    return answer
