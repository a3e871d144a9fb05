"""Answers that take no work: a task that one of them solves is refused, or marked degenerate."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import torch

from kb.errors import TaskError
from search.judging.inputs import scaled
from search.judging.trial import InputTrial, TrialSet, inside
from search.judging.truth.reference import Truth
from search.reference import WHOLE, Problem

_SAME_SHARE, _SAME = 1e-6, 1e-9  # relative and absolute: of two truths that are one
# Elements whose mean is taken at once: where there are gigabytes, each copy counts.
_PIECE = 1 << 26
Answer = tuple[torch.Tensor, ...]


def probe(problem: Problem, bank: TrialSet) -> bool:
    """Try answers that took no work; refuse a task that one of them solves, unless it is degenerate.

    Returns:
        Whether it is.
    """
    means = cache(partial(_means, bank))
    kinds: dict[str, Callable[[int, slice | None], Answer | None]] = {
        "all zeros": lambda at, rows: tuple(
            torch.zeros_like(x) for x in _answers(bank.trials[at], rows)
        ),
        "a constant": lambda at, rows: tuple(
            torch.full_like(x, mean)
            for x, mean in zip(_answers(bank.trials[at], rows), means(at), strict=True)
        ),
        "the answer to other inputs": lambda at, rows: _answers(bank.trials[at - 1], rows),
    }
    for place, value in enumerate(problem.inputs):
        if isinstance(value, torch.Tensor):
            kinds[f"input {place} itself"] = partial(_echo, bank, place)
    for what, answer in kinds.items():
        if all(
            _passes(bank.trials[at], rows, answer(at, rows))
            for at in range(len(bank.trials))
            for rows in _pieces(bank, at)
        ):
            if _is_constant(problem, bank):
                return True
            raise TaskError(
                f"{problem.task.reference}: {what} would pass as an answer at precision "
                f"{problem.task.settings.precision}: use precision: strict, or a reference whose output depends on "
                "its inputs"
            )

    return False


def _pieces(bank: TrialSet, at: int) -> tuple[slice | None, ...]:
    """Return the rows of which a trial is looked at one after the other; None: there is memory for all of them."""
    cut = bank.trials[at].cut
    asked = (bank.trials[0], bank.trials[at - 1], bank.trials[at])
    apart = all(one.cut is not None and one.part is not None for one in asked)
    return cut.rows if apart and cut is not None else (None,)


def _piece(trial: InputTrial, rows: slice | None) -> InputTrial:
    if rows is None:
        return trial
    assert trial.part is not None
    piece = trial.part(rows)
    assert piece is not None  # it was answered so before
    return piece


def _answers(trial: InputTrial, rows: slice | None) -> Answer:
    piece = _piece(trial, rows)
    return tuple(piece.answer(number) for number in range(len(piece.low)))


def _means(bank: TrialSet, at: int) -> list[float]:
    """Return the mean of each output of a trial, rounded where it is of whole numbers."""
    totals: list[float] = []
    counts: list[int] = []
    for rows in _pieces(bank, at):
        values = _answers(bank.trials[at], rows)
        totals = totals or [0.0] * len(values)
        counts = counts or [0] * len(values)
        for number, value in enumerate(values):
            totals[number] += _total(value)
            counts[number] += value.numel()
    means = [total / max(count, 1) for total, count in zip(totals, counts, strict=True)]
    # Of a single element the mean is the answer: there one constant must do for all trials.
    if at != 0 and any(count <= 1 for count in counts):
        first = _means(bank, 0)
        means = [a if n <= 1 else b for a, b, n in zip(first, means, counts, strict=True)]
    whole = (value.dtype in WHOLE for value in values)
    return [round(mean) if one else mean for mean, one in zip(means, whole, strict=True)]


def _passes(trial: InputTrial, rows: slice | None, answer: Answer | None) -> bool:
    return answer is not None and inside(_piece(trial, rows), answer)


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


def _total(answer: torch.Tensor) -> float:
    parts = torch.split(answer.reshape(-1), _PIECE)
    return sum(float(part.nan_to_num().sum(dtype=torch.float64)) for part in parts)


def _echo(bank: TrialSet, place: int, at: int, rows: slice | None) -> Answer | None:
    """Return an input as the answer, None where it has not the shape of one."""
    trial = _piece(bank.trials[at], rows)
    given = trial.inputs[place]
    wanted = [
        low if whole is None else whole
        for low, whole in zip(trial.low, trial.whole or (None,) * len(trial.low), strict=True)
    ]
    fits = all(given.shape == x.shape and given.dtype == x.dtype for x in wanted)
    return tuple(given for _ in wanted) if fits else None
