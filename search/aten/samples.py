"""What an operator is answered on besides the problem that is timed: each sample input, and awkward ones.

Beside OpInfo's own samples, empty tensors among them, there are two that are made of the largest: laid out
otherwise in memory, and of tensors without dimensions. Infinities and NaN are a distribution of inputs of every
sample, see `search.judging.inputs`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from search.aten.programs import OperatorCall, Unwritable, write_program


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSample:
    """One call of an operator.

    Attributes:
        program: text of the call as a reference, empty where it has no form that can be judged.
        reason: why it has none.
        elements: of its tensors.
        awkward: it is made of one of OpInfo's, and the operator may refuse it.
    """

    name: str
    program: str
    reason: str = ""
    elements: int = 0
    awkward: bool = False


def samples_of(calls: Sequence[OperatorCall], title: str) -> tuple[OperatorSample, ...]:
    """Return the samples of an operator, OpInfo's first."""
    named = [(f"sample {number}", call, False) for number, call in enumerate(calls)]
    named += [(name, call, True) for name, call in _awkward(calls)]
    return tuple(
        replace(_sample(name, call, f"{title} {name.capitalize()}."), awkward=awkward)
        for name, call, awkward in named
    )


def _sample(name: str, call: OperatorCall, title: str) -> OperatorSample:
    try:
        program = write_program(call, title, exact=True)
    except Unwritable as error:
        return OperatorSample(name=name, program="", reason=str(error))
    tensors = tuple(_tensors((call.arguments, tuple(call.options.values()))))
    if any(x.numel() == 0 for x in tensors):
        return OperatorSample(name=name, program="", reason="an input is empty")
    return OperatorSample(name=name, program=program, elements=sum(x.numel() for x in tensors))


def _awkward(calls: Sequence[OperatorCall]) -> Iterator[tuple[str, OperatorCall]]:
    """Yield the largest call that each awkward change makes another one of.

    Whether the operator takes it is seen where it is asked, in a process of its own: torch 2.13 dies of some.
    """
    ranked = sorted(calls, key=lambda call: -sum(x.numel() for x in _tensors(call.arguments)))
    for name, change in (("other strides", _transposed), ("no dimensions", _scalar)):
        made = (_changed(call, change) for call in ranked)
        if (found := next((call for call in made if call), None)) is not None:
            yield name, found


def _changed(
    call: OperatorCall, change: Callable[[torch.Tensor], torch.Tensor]
) -> OperatorCall | None:
    """Return the call on changed floating-point tensors, None where that is the same call."""
    arguments = tuple(_over(value, change) for value in call.arguments)
    pairs = zip(_tensors(call.arguments), _tensors(arguments), strict=True)
    if all((a.shape, a.stride()) == (b.shape, b.stride()) for a, b in pairs):
        return None
    return OperatorCall(name=call.name, arguments=arguments, options=call.options)


def _over(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        copy = value.detach().clone()
        return change(copy) if copy.is_floating_point() else copy
    if isinstance(value, (list, tuple)) and any(isinstance(one, torch.Tensor) for one in value):
        return type(value)(_over(one, change) for one in value)
    return value


def _transposed(value: torch.Tensor) -> torch.Tensor:
    if value.dim() < 2:
        return value
    return value.transpose(0, 1).contiguous().transpose(0, 1)


def _scalar(value: torch.Tensor) -> torch.Tensor:
    return value.reshape(-1)[0].clone() if value.numel() else value


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)
