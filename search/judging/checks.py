"""Compares what a runner reports and returns with what the reference does."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kb.errors import TaskError
from search.judging.bounds import pieces
from search.judging.inputs import SPECIAL
from search.judging.trial import InputTrial, TrialSet
from search.judging.truth.reference import watched
from search.outcome import Refused
from search.reference import Problem
from search.sandbox.faults import Fault, forged, wrong
from search.sandbox.runner import encode
from search.strides import TensorLayout

_memcmp = ctypes.CDLL(None).memcmp
_memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_PIECE = 1 << 24  # elements that are summed in one go
_WHOLE = {1: torch.uint8, 2: torch.int16, 4: torch.int32}  # of so many bytes
_HALF = 0.5  # of what is allowed: the framework may be off by some of it
_BOTH = 1.25  # of a slack: two right answers may be apart by more than one of them is off


def check_arguments(problem: Problem) -> None:
    """See that the constructor's arguments can be handed to another process.

    Raises:
        TaskError: one of them cannot.
    """
    for number, value in enumerate(problem.init_inputs):
        try:
            encode(value)
        except TypeError as error:
            raise TaskError(
                f"{problem.task.reference}: get_init_inputs() item {number} is a {error}: give numbers, "
                "strings, lists or tensors"
            ) from error


def check_state(problem: Problem, told: Any) -> None:
    """Compare what a runner says of its parameters with the reference's.

    Raises:
        Fault: names, shapes or types differ.
    """
    wanted = {name: [list(x.shape), str(x.dtype)] for name, x in problem.state.items()}
    if not isinstance(told, dict):
        raise forged("no state_dict")
    lines = [f"{name}: missing, expected {wanted[name][0]}" for name in wanted if name not in told]
    lines += [f"{name}: the reference has no such entry" for name in told if name not in wanted]
    lines += [
        f"{name}: {told[name]}, expected {wanted[name]}"
        for name in wanted
        if name in told and told[name] != wanted[name]
    ]
    if lines:
        raise wrong(
            "its state_dict is not the reference's: construct the same parameters under the same names",
            "\n".join(lines[:20]),
        )


def check_outputs(problem: Problem, answer: dict[str, Any]) -> None:
    """Compare what a runner says of its outputs with the reference's.

    Raises:
        Fault: number, kind, shape, type, device or strides differ.
    """
    wanted = problem.outputs
    device = next(x.device.type for x in problem.inputs if isinstance(x, torch.Tensor))
    described = answer.get("outputs")
    if not isinstance(described, list) or not all(isinstance(value, dict) for value in described):
        raise forged("no outputs")
    if len(described) != len(wanted) or answer.get("single") is not problem.single_output:
        what = "a tensor" if problem.single_output else f"a tuple of {len(wanted)} tensors"
        raise wrong(f"it returns {len(described)} outputs, expected {what}")
    for number, (value, layout) in enumerate(zip(described, wanted, strict=True)):
        if value.get("type") != "Tensor":
            if "shape" in value:
                raise Fault(
                    Refused(
                        reason=f"output {number} is a {value.get('type')}, a subclass that may compute when it is "
                        "looked at: return a plain torch.Tensor",
                        trick="tensor-subclass",
                    )
                )
            raise wrong(f"output {number} is a {value.get('type')}, expected a torch.Tensor")
        for key, expected in (
            ("shape", list(layout.shape)),
            ("dtype", str(layout.dtype)),
            ("device", device),
        ):
            if value.get(key) != expected:
                raise wrong(f"output {number} has {key} {value.get(key)}, expected {expected}")
        if not strides_fit(value.get("strides"), layout):
            as_reference = (
                "" if layout.strides == layout.contiguous else f", or {list(layout.strides)}"
            )
            raise wrong(
                f"output {number} has strides {value.get('strides')}, expected {list(layout.contiguous)}{as_reference}: "
                "return contiguous memory"
            )
    if answer.get("copied") is not True:
        raise forged("outputs of the right shape were not handed over")


def told(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the exception in an answer, whatever form it has."""
    given = answer.get("raised")
    return (
        given if isinstance(given, dict) else {"type": "an exception", "message": str(given)[:300]}
    )


def cached(detail: str) -> Fault:
    """Return the fault of an answer that was kept."""
    return Fault(
        Refused(
            reason="it returns an answer that it computed for other inputs",
            trick="cached-output",
            detail=detail,
        )
    )


def varied(values: Sequence[torch.Tensor]) -> bool:
    """Say whether an answer is more than a constant, which many inputs share."""
    return any(
        bool((value != value.flatten()[0]).any()) and not bool(value.isnan().all())
        for value in values
    )


def equal(one: Sequence[torch.Tensor], other: Sequence[torch.Tensor]) -> bool:
    """Say whether two answers are the same and not merely one constant."""
    return varied(one) and all(same(a, b) for a, b in zip(one, other, strict=True))


def same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Say whether two tensors hold the same values, NaN being one."""
    if same_bytes(one, other) or torch.equal(one, other):
        return True
    return one.is_floating_point() and bool(((one == other) | (one.isnan() & other.isnan())).all())


def same_bytes(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Say whether two tensors of one layout are the same bytes, which is told in a tenth of the time."""
    if (one.shape, one.dtype) != (other.shape, other.dtype) or not (_plain(one) and _plain(other)):
        return False
    return not _memcmp(one.data_ptr(), other.data_ptr(), one.nbytes)


def _plain(values: torch.Tensor) -> bool:
    """Say whether the bytes of a tensor lie in the order of its elements, and are their values."""
    turned = values.is_conj() or values.is_neg()
    return values.device.type == "cpu" and values.is_contiguous() and not turned


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What tells an answer from others without keeping it: sums of its bits, plain and weighted by place.

    It finds what changed by itself, as a buffer that is used again does; nothing that was made to collide.
    """

    sums: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, values: Sequence[torch.Tensor]) -> Fingerprint:
        """Return that of an answer."""
        return cls(tuple(map(_sums, values)))


def _sums(value: torch.Tensor) -> tuple[int, int]:
    flat = value.permute(sorted(range(value.dim()), key=lambda at: -value.stride()[at])).reshape(-1)
    plain = weighted = torch.zeros((), dtype=torch.int64, device=value.device)
    for number, piece in enumerate(
        torch.split(flat.view(_WHOLE.get(flat.element_size(), torch.int64)), _PIECE)
    ):
        wide = piece.long()
        plain = plain + wide.sum()
        places = torch.arange(1, wide.numel() + 1, device=value.device)
        weighted = weighted + (number + 1) * places.mul_(wide).sum()
    return int(plain), int(weighted)


def apart(one: torch.Tensor, other: torch.Tensor) -> float:
    """Return the greatest difference of two tensors, infinity where one is NaN."""
    return float((one.double() - other.double()).abs().nan_to_num(torch.inf).max())


def strides_fit(told: Any, layout: TensorLayout) -> bool:
    """Say whether strides place the elements as the reference does, or contiguously."""
    if not isinstance(told, list) or len(told) != len(layout.shape):
        return False
    return any(
        all(size == 1 or a == b for a, b, size in zip(told, wanted, layout.shape, strict=True))
        for wanted in (layout.strides, layout.contiguous)
    )


def near(
    got: Sequence[torch.Tensor], eager: Sequence[torch.Tensor], trial_set: TrialSet | InputTrial
) -> bool:
    """Say whether `got` is as close to the framework's answer as two right answers are.

    Both may be off by their own error, hence a quarter more than the candidate's share.
    """
    for value, wanted, slack in zip(got, eager, trial_set.slack, strict=True):
        if not value.is_floating_point():
            if not torch.equal(value, wanted):
                return False
            continue
        for piece in pieces(wanted):
            one, other = (value[piece], wanted[piece]) if wanted.dim() else (value, wanted)
            error = (one - other).abs_()
            if slack.seen is not None and bool((error <= other.abs().mul_(slack.relative)).all()):
                continue
            if not bool((error <= slack.margin(other).mul_(_BOTH)).all()):
                return False
    return True


def surely_right(
    problem: Problem,
    trial: InputTrial,
    outputs: Sequence[torch.Tensor],
    eager: Sequence[torch.Tensor],
) -> bool:
    """Say whether an answer is so near to the framework's that it is within its bounds, which need not be found then.

    What is allowed is at least three times what the framework was seen to be off by, and more than the share of an
    element's own size that is half used here. False says nothing.
    """
    if problem.special or trial.distribution == SPECIAL:
        return False
    for value, wanted, slack in zip(outputs, eager, trial.slack, strict=True):
        for piece in pieces(wanted):
            part = piece if wanted.dim() else ...
            one, other = (_wide(x[part]) for x in (value, wanted))
            error, size = (one - other).abs_(), other.abs()
            absolute, relative = slack.told or (0.0, 0.0)
            allowed = size.mul_(_HALF * max(slack.relative, relative)).add_(_HALF * absolute)
            if not bool((error <= allowed).all()):
                return False
    return True


def _wide(values: torch.Tensor) -> torch.Tensor:
    return values if values.dtype is torch.float64 else values.float()


def agrees(
    problem: Problem,
    trial: InputTrial,
    inputs: tuple[Any, ...],
    state: Mapping[str, torch.Tensor] | None,
    answers: tuple[tuple[torch.Tensor, ...], tuple[torch.Tensor, ...]],
) -> bool:
    """Say whether the answer of a timed call is as right as the framework's, on inputs that are no trial's.

    Other indices than the framework's are right where the values at them are, which are looked up here. What is allowed
    of vectors is known of what they make alone.

    Args:
        trial: of the same distribution.
        state: parameters, where they are not the problem's own.
        answers: the candidate's and the framework's.
    """
    got, eager = answers
    if not problem.factorises and near(got, eager, trial):
        return True
    if not problem.special:
        return False
    mine = watched(problem, lambda: problem.run(*inputs, state=state))
    found = [
        (value, None) if lookup is None else lookup.compared(number, got)
        for number, (value, lookup) in enumerate(zip(got, mine.lookups, strict=True))
    ]
    permitted = all(valid is None or bool(valid.all()) for _, valid in found)
    return permitted and near([value for value, _ in found], mine.values, trial)
