"""A second look at few elements beyond their bounds: are they what a right answer's rounding makes of them?

Where a softmax is saturated, a maximum, a step or a gate decides between values that lie far apart, and which one it
is turns on the last bits of what was summed before. The bounds come from few right answers, and no slice of an answer may be
off by much more than they were there: where 60,000 rows decide something, another right answer has rows that turn, in slices
where none of those had one.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch

from search import seeds
from search.judging import inputs as distributions
from search.judging.trial import InputTrial, RowCut, TrialSet, inside
from search.judging.truth.reference import Truth, jitter
from search.judging.truth.rounded import MovedResults
from search.reference import Problem

_SHARE = 0.01  # of an output's elements, at most: where more are wrong, it is no luck
_LOOKS = 64  # changes of the inputs, at most: a row that one in ten turns over must be among them
_SURE_LOOKS, _SECONDS = 12, 10.0  # so many however long they take; more within some seconds
_ROUNDINGS = 4.0  # times what the longest sum's roundings are usually worth
# Of answers in two bytes: up to 6 of 400,000 elements were beyond, of honest programs, or six columns of 2,048; of one whose
# weights have eight bits, one in 300 to one in 50,000, and 19 columns or more. Up to 4.4 times as far off as allowed.
_HANDFUL, _HANDFUL_SHARE, _SLICES, _SLICES_SHARE, _NEAR = 2, 2e-5, 3, 1 / 256, 6.0
_HALF_UNITS = {torch.float16: 2.0**13, torch.bfloat16: 2.0**16}  # in those of float32


def is_right(
    problem: Problem,
    trial_set: TrialSet,
    trial: InputTrial,
    outputs: tuple[torch.Tensor, ...],
    state: Mapping[str, torch.Tensor] | None = None,
) -> bool:
    """Say whether every element is within the trial's bounds, or where rounding may put it.

    Outside of its bounds an element must lie between answers, found in float64, to inputs and parameters that are changed by what
    the roundings of the reference's longest sum amount to. No more than one in a hundred may. Of a handful of elements of a task
    in two bytes those near their bounds are right without.

    Where the device has no memory for answers in float64, it is taken to be wrong.

    Args:
        trial_set: where it knows how rows are cut, only those in dispute are looked at.
        outputs: what a candidate answers to the trial's inputs.
        state: the parameters, where they are not the problem's own.
    """
    if inside(trial, outputs):
        return True
    if not _bounded_by_rounding(trial):
        return False
    wrong = tuple(trial.wrong(number, outputs) for number in range(len(outputs)))
    if any(int(one.sum()) > _SHARE * one.numel() for one in wrong):
        return False
    rounded = _half_unit(problem) if all(map(_is_handful, wrong)) else 0.0
    if rounded:
        spans = zip(outputs, trial.low, trial.high, wrong, strict=True)
        wrong = tuple(_far(value, below, above, bad) for value, below, above, bad in spans)
        if not any(bool(one.any()) for one in wrong):
            return True
    one_sided = distributions.plain_name(trial.distribution) in distributions.ONE_SIDED
    times = max(_usual(count, one_sided=one_sided) for count in trial_set.sums.terms)
    answers = (outputs, trial.low, trial.high)
    truth = Truth(problem, state)
    try:
        return all(
            _explained(truth, given, bad, list(others), (_ROUNDINGS * times, rounded))
            for given, (bad, *others) in _disputed(trial_set.cut, trial.inputs, wrong, answers)
        )
    except torch.OutOfMemoryError:
        return False
    finally:
        del truth
        if wrong[0].is_cuda:
            torch.cuda.empty_cache()  # the candidate is to find the memory that it had


def _is_handful(wrong: torch.Tensor) -> bool:
    """Say whether so few elements are wrong as luck makes of an answer in two bytes.

    Where rows are alike, as of inputs with a large mean, what befalls a column in one row befalls it in all of them, so
    that whole slices are counted: three, or one in 256 where that is more.
    """
    if int(wrong.sum()) <= max(_HANDFUL, _HANDFUL_SHARE * wrong.numel()):
        return True
    if wrong.dim() < 2:
        return False
    dims = range(wrong.dim())
    slices = (wrong.any(tuple(other for other in dims if other != dim)) for dim in dims)
    return any(
        int(one.sum()) <= min(max(_SLICES, _SLICES_SHARE * len(one)), _SHARE * len(one))
        for one in slices
    )


def _usual(terms: int, *, one_sided: bool) -> float:
    """Return by how many half units all terms of a sum must change, with random signs, to move it as its rounding does.

    See `bounds.growth`: partial sums of random signs are off by sqrt(n / 6) of that, those of one sign by 0.42 sqrt(n / 3)
    half units of the sum, where half units of its terms make sqrt(2 / n) of it.
    """
    return max(1.0, 0.17 * terms if one_sided else math.sqrt(terms / 6))


def _half_unit(problem: Problem) -> float:
    """Return half a unit of the two-byte type that most elements of inputs and parameters have, in those of float32; else 0.

    By so much the framework rounds what it makes of such tensors, and a program what it multiplies.
    """
    given = [x for x in (*problem.inputs, *problem.state.values()) if isinstance(x, torch.Tensor)]
    counts = Counter[torch.dtype]()
    for one in given:
        counts[one.dtype] += one.numel() if one.is_floating_point() else 0
    most, count = counts.most_common(1)[0]
    return _HALF_UNITS.get(most, 0.0) if 2 * count > counts.total() else 0.0


def _far(
    value: torch.Tensor, low: torch.Tensor, high: torch.Tensor, wrong: torch.Tensor
) -> torch.Tensor:
    """Return which of the wrong elements are more than some times as far off as they may be, or are no numbers."""
    below, above = low[wrong].double(), high[wrong].double()
    off = (value[wrong].double() - (below + above) / 2).abs()
    far = torch.zeros_like(wrong)
    far[wrong] = ~(off <= _NEAR * (above - below) / 2) | ~torch.isfinite(above - below)
    return far


def _bounded_by_rounding(trial: InputTrial) -> bool:
    """Say whether errors that right answers were seen to have bound the trial, and not what a task told or what is exact."""
    exact = any(one is not None for one in (*trial.whole, *trial.lookups))
    seen = all(slack.seen is not None for slack in trial.slack)
    return seen and not exact and trial.distribution != distributions.SPECIAL


def _disputed(
    cut: RowCut | None,
    inputs: tuple[Any, ...],
    wrong: tuple[torch.Tensor, ...],
    answers: tuple[tuple[torch.Tensor, ...], ...],
) -> list[tuple[tuple[Any, ...], list[tuple[torch.Tensor, ...]]]]:
    """Return the inputs of what is disputed, with what is wrong and the answers there: all, where rows do not stand apart."""
    if cut is None:
        return [(inputs, [wrong, *answers])]
    found = []
    for rows in cut.rows:
        if any(bool(one[rows].any()) for one in wrong):
            parts = [tuple(value[rows] for value in whole) for whole in (wrong, *answers)]
            found.append((cut.of(inputs, rows), parts))
    return found


def _explained(
    truth: Truth,
    inputs: tuple[Any, ...],
    wrong: tuple[torch.Tensor, ...],
    answers: list[tuple[torch.Tensor, ...]],
    units: tuple[float, float],
) -> bool:
    """Say whether what is wrong of an answer lies between answers to changed inputs, with the usual allowance on both sides.

    In every second of them what is computed on the way is changed too. Where it is rounded to two bytes it is changed by that in all
    of them, and in every second one inputs are, for a program may round what it multiplies.

    Args:
        units: half units by which inputs are changed, and by which results are rounded to two bytes, 0 where they are not.
    """
    times, rounded = units
    by = max(times, rounded)
    got, low, high = (
        [value[bad].double() for value, bad in zip(whole, wrong, strict=True)] for whole in answers
    )
    if not all(bool(torch.isfinite(value).all()) for value in got):
        return False  # nothing lies between answers that is no number
    margins = [(above - below) / 2 for below, above in zip(low, high, strict=True)]
    least = [below + margin for below, margin in zip(low, margins, strict=True)]
    most = [one.clone() for one in least]
    generator = torch.Generator(wrong[0].device).manual_seed(seeds.secret())
    began = time.monotonic()
    for look in range(_LOOKS):
        if look >= _SURE_LOOKS and time.monotonic() - began > _SECONDS:
            return False
        # Every second time all that is computed on the way is moved besides.
        within = MovedResults(partial(jitter, generator=generator, times=by))
        inputs_by = by if look % 2 else times
        moved = truth.values(
            inputs,
            partial(jitter, generator=generator, times=inputs_by),
            within if look % 2 or rounded else None,
        )
        for number, bad in enumerate(wrong):
            there = moved[number][bad]
            torch.minimum(least[number], there, out=least[number])
            torch.maximum(most[number], there, out=most[number])
        del moved
        spans = zip(got, least, most, margins, strict=True)
        if all(
            bool(((value >= a - margin) & (value <= b + margin)).all())
            for value, a, b, margin in spans
        ):
            return True
    return False
