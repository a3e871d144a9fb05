"""Says how an answer is wrong, in words and numbers that help to mend it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from search.judging.trial import InputTrial
from search.judging.truth.factors import FactorLookup
from search.judging.truth.reference import Truth
from search.reference import WHOLE, Problem

_SHOWN = 4
_MADE = "the product of all factors, or the inner products of vectors"
_POISON = 3.3e38  # what fresh memory reads as in a runner


def explain(
    problem: Problem, trial: InputTrial, outputs: Sequence[torch.Tensor]
) -> tuple[str, str]:
    """Return (reason, detail) for outputs that are outside the trial's bounds."""
    for number in range(len(outputs)):
        wrong = trial.wrong(number, outputs)
        count = int(wrong.sum())
        if count:
            break
    got = outputs[number]
    truth = trial.truth(number) if trial.special is None else trial.special[number].double()
    if problem.outputs[number].dtype in WHOLE:
        return _explained_whole(trial, number, outputs, wrong)
    which = f"output {number}" if len(outputs) > 1 else "the output"
    if isinstance(trial.lookups[number] if trial.lookups else None, FactorLookup):
        got = trial.found(number, outputs)[0]
        which = f"what the vectors of output {number} make ({_MADE})"
    error = (got.double() - truth).abs()[wrong]
    worst = float(error.nan_to_num(math.inf).max())
    reason = (
        f"{which} differs from the reference on '{trial.distribution}' inputs in {count} of {got.numel()} elements, "
        f"by up to {worst:.3g}"
    )
    lines = [*_worst(trial, number, got, truth, wrong), *_patterns(got, truth, wrong)]
    lines += _suspects(problem, trial, number, got, truth, wrong)
    return reason, "\n".join(lines)


def _explained_whole(
    trial: InputTrial, number: int, outputs: Sequence[torch.Tensor], wrong: torch.Tensor
) -> tuple[str, str]:
    """Return (reason, detail) for integers, booleans or indices that are wrong."""
    got = outputs[number]
    value, permitted = trial.found(number, outputs)
    wanted, shown = trial.answer(number), got
    what, rule = "values", "they must be equal"
    if got.dtype is torch.bool:
        shown = value  # bytes, which may be neither 0 nor 1
    if permitted is not None:
        what, rule = (
            "indices",
            "the value at an index must be the right one; which of equal ones is free",
        )
    reason = (
        f"output {number} differs from the reference on '{trial.distribution}' inputs in {int(wrong.sum())} of "
        f"{got.numel()} {what}: {rule}"
    )
    lines = []
    for flat in wrong.flatten().nonzero().flatten()[:_SHOWN].tolist():
        place = _index(flat, got.shape)
        line = f"at {list(place)}: got {shown[place].item()}, expected {int(wanted[place])}"
        if permitted is not None and bool(permitted[place]):
            low, high = float(trial.low[number][place]), float(trial.high[number][place])
            line += (
                f"; the value there is {float(value[place]):.7g}, allowed {low:.7g} to {high:.7g}"
            )
        elif permitted is not None:
            line += "; outside of what is searched, or a second time"
        lines.append(line)
    if bool((got == got.flatten()[0]).all()) and got.numel() > 1:
        lines.append("every element of the output is the same")
    return reason, "\n".join(lines)


def _worst(
    trial: InputTrial, number: int, got: torch.Tensor, truth: torch.Tensor, wrong: torch.Tensor
) -> list[str]:
    score = torch.where(wrong, (got.double() - truth).abs().nan_to_num(math.inf, math.inf), -1.0)
    top = torch.topk(score.flatten(), min(_SHOWN, int(wrong.sum()))).indices
    first = int(wrong.flatten().int().argmax())
    lines = []
    for flat in dict.fromkeys([*top.tolist(), first]):
        place = _index(flat, got.shape)
        low, high = float(trial.low[number][place]), float(trial.high[number][place])
        lines.append(
            f"at {list(place)}: got {float(got[place]):.7g}, expected {float(truth[place]):.7g}, "
            f"allowed {low:.7g} to {high:.7g}"
        )
    return lines


def _index(flat: int, shape: torch.Size) -> tuple[int, ...]:
    place = []
    for size in reversed(shape):
        flat, remainder = divmod(flat, size)
        place.append(remainder)
    return tuple(reversed(place))


def _patterns(got: torch.Tensor, truth: torch.Tensor, wrong: torch.Tensor) -> list[str]:
    """Name what the wrong elements have in common."""
    lines = []
    bad, wanted = got[wrong], truth[wrong]
    if bool(torch.isnan(bad).all()):
        lines.append("every wrong element is NaN")
    elif int(torch.isnan(bad).sum()):
        lines.append(f"{int(torch.isnan(bad).sum())} of them are NaN")
    if bool((got == 0).all()):
        lines.append("every element of the output is zero: is it written at all?")
    elif got.numel() > 1 and bool((got == got.flatten()[0]).all()):
        lines.append("every element of the output is the same")
    elif bool((bad == 0).all()):
        lines.append("every wrong element is zero")
    unwritten = int((bad > _POISON).sum())
    if unwritten:
        lines.append(f"{unwritten} of them were never written (fresh memory shows through)")
    for dimension, size in enumerate(got.shape):
        rest = tuple(other for other in range(got.dim()) if other != dimension)
        hit = wrong.any(dim=rest) if rest else wrong
        places = torch.nonzero(hit).flatten()
        first, last = int(places[0]), int(places[-1])
        if len(places) < size and size > 1:
            lines.append(
                f"wrong only at {len(places)} of {size} indices of dimension {dimension}, from {first} to {last}"
            )
    usable = (wanted.abs() > 0) & torch.isfinite(bad)
    if int(usable.sum()) > 1:
        ratio = bad[usable].double() / wanted[usable]
        middle = float(ratio.median())
        if float((ratio - middle).abs().max()) < 1e-2 * abs(middle) and abs(middle - 1) > 2e-2:
            lines.append(f"each is about {middle:.4g} times what is expected")
        relative = float((ratio - 1).abs().median())
        if 5e-5 < relative < 5e-3:
            lines.append(
                "errors of this size come from half precision, tf32 or a loose approximation"
            )
        elif relative <= 5e-5:
            lines.append(
                "errors of this size come from rounding: accumulate in more or longer partial sums"
            )
    return lines


def _suspects(
    problem: Problem,
    trial: InputTrial,
    number: int,
    got: torch.Tensor,
    truth: torch.Tensor,
    wrong: torch.Tensor,
) -> list[str]:
    """Try the usual mistakes: the input handed back, parameters read too early or not at all."""
    lines = []
    for place, value in enumerate(trial.inputs):
        if (
            isinstance(value, torch.Tensor)
            and value.shape == got.shape
            and torch.equal(value.to(got.dtype), got)
        ):
            lines.append(f"it is input {place}, unchanged")
    if problem.initial_state and trial.special is None:
        truth_of = Truth(problem)
        widened = {
            name: value.double() if value.is_floating_point() else value
            for name, value in problem.initial_state.items()
        }
        truth_of.model.load_state_dict(widened)
        stale = truth_of(trial.inputs)[number]
        margin = (trial.high[number].double() - truth).abs()
        if bool(((got.double() - stale).abs() <= margin)[wrong].all()):
            allowed = problem.packs
            lines.append(
                "it is what the parameters had given when the constructor ran: they are replaced afterwards "
                "(load_state_dict), so pack or copy them in forward, "
                + (
                    "or in __init__ before anything writes to them"
                    if allowed
                    else "for this task forbids packing in __init__"
                )
            )
    return lines
