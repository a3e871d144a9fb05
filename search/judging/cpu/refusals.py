"""What a call is refused for that does more, or less, than answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from search.judging.checks import same
from search.outcome import Refused
from search.sandbox.faults import Fault


def check_inputs(slots: Sequence[Any], values: Sequence[Any]) -> None:
    """Compare the inputs that a runner can write to with those that it was given.

    Raises:
        Fault: it has changed one.
    """
    for number, (slot, value) in enumerate(zip(slots, values, strict=True)):
        if isinstance(slot, torch.Tensor) and not same(slot, value):
            count = int((slot != value).sum())
            raise Fault(
                Refused(
                    reason=f"it changes its input {number} ({count} elements): write to memory of its own",
                    trick="input-mutation",
                )
            )


def early() -> Fault:
    """Return the fault of an answer that was not there when its program said that it was."""
    reason = (
        "it says that it is done before it is: its answer was completed after the clock had stopped"
    )
    return Fault(Refused(reason=reason, trick="work-after-the-clock"))


def in_place() -> Fault:
    """Return the fault of an answer that lies where its inputs do."""
    return Fault(
        Refused(
            reason="its answer lies in the memory of its inputs: allocate the output in each call",
            trick="input-alias",
        )
    )


def aliased() -> Fault:
    """Return the fault of an answer in pages that may lie at other addresses too."""
    return Fault(
        Refused(
            reason="its answer lies in shared pages, which may be those of another answer or of another part of this "
            "one: allocate the output in memory of its own",
            trick="aliased-outputs",
        )
    )


def reused() -> Fault:
    """Return the fault of an answer that does not stay what it was."""
    return Fault(
        Refused(
            reason="an earlier answer changes when the next is computed: allocate the output in each call",
            trick="reused-output-buffer",
        )
    )
