"""The errors that right answers have: the framework's own, and what the inputs' rounding makes of the truth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from search.judging.bounds import count_moved, pieces
from search.judging.precision import rule
from search.judging.truth.reference import ROUNDINGS, Truth, jitter
from search.reference import Problem

_FEW, _DRAWS, _LEAST_DRAWS = 1024, 5, 2  # elements of an answer; roundings of its inputs


def moved_errors(  # noqa: PLR0913 - what a trial consists of
    problem: Problem,
    truth: Truth,
    inputs: tuple[Any, ...],
    exact: tuple[torch.Tensor, ...],
    errors: list[torch.Tensor],
    grown: tuple[float, ...],
    also: tuple[Callable[[torch.Tensor], torch.Tensor], ...] = (),
) -> list[list[torch.Tensor]]:
    """Raise `errors` to what changes of the inputs by their own rounding make of the truth.

    Args:
        grown: see `growth`, by output.
        also: changes of an input besides those of random signs.

    Returns:
        Of each output, how many elements of each index the first change moved, see `count_moved`.
    """
    generator = torch.Generator(exact[0].device).manual_seed(problem.seed)
    # The error of few elements is a matter of luck: it is sought in several draws.
    draws = _DRAWS if sum(x.numel() for x in exact) <= _FEW else _LEAST_DRAWS
    counts: list[list[torch.Tensor]] = []
    for move in (*[lambda x: jitter(x, generator)] * draws, *also):
        got = truth.values(inputs, move)
        counts = counts or [count_moved(*pair) for pair in zip(got, exact, strict=True)]
        _raise(errors, got, exact, [2 * times for times in grown])
        del got
    for rounding in ROUNDINGS.get(rule(problem), ()):
        _raise(errors, truth.values(inputs, rounding), exact, [1.0] * len(exact))
    return counts


def _raise(
    errors: list[torch.Tensor],
    got: Sequence[torch.Tensor],
    exact: Sequence[torch.Tensor],
    times: Sequence[float],
) -> None:
    """Raise `errors` to so many times those of `got`, piece by piece: where there are gigabytes, each copy counts."""
    for error, value, right, factor in zip(errors, got, exact, times, strict=True):
        for piece in pieces(right):
            part = piece if right.dim() else ...
            found = _difference(value[part], right[part]).mul_(factor).float()
            torch.maximum(error[part], found, out=error[part])


def error_of(got: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    """Return how far off each element is, as float32."""
    error = torch.empty(exact.shape, dtype=torch.float32, device=exact.device)
    for piece in pieces(exact):
        part = piece if exact.dim() else ...
        error[part] = _difference(got[part], exact[part])
    return error


def _difference(got: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    return (got.double() - exact).abs_().nan_to_num_(0.0, 0.0, 0.0)
