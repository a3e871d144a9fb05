"""Which integers and booleans are right, where rounding decides what an element is."""

from __future__ import annotations

from typing import Any

import torch

from search.judging.precision import rule
from search.judging.truth.reference import ROUNDINGS, Truth, Watched, jitter
from search.reference import WHOLE, Problem

_MET = 8  # roundings of inputs that tell which integers are right
_WIDER = 8  # times the rounding of inputs that may turn an integer or a boolean over


def met(
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
        moves = [lambda x: jitter(x, generator, _WIDER)] * _MET
        seen += [truth(inputs, move) for move in (*moves, *ROUNDINGS.get(rule(problem), ()))]
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
