"""What a runner may take to be ready for a turn; real ones that dawdle are in the corpus of cheats."""

from __future__ import annotations

from typing import Any, cast

import pytest

from search.judging.cpu.timing import CpuPinning
from search.judging.cpu.turns import Turns
from search.sandbox.faults import Fault


def turns(*, trusted: bool = False) -> Turns:
    """What keeps the account of a runner that is never started."""
    none, seats = cast("Any", None), CpuPinning(stage=0, seat=0)
    made = Turns(none, none, seats, seconds=1.0, trusted=trusted)
    made._call = 2  # in its first turn it has its memory to look through
    return made


def test_thousands_of_turns_on_a_busy_machine_are_not_held_against_a_runner() -> None:
    account = turns()
    for _ in range(5000):
        account._charge(0.0009)


def test_a_little_in_each_turn_and_much_in_one_are_too_much() -> None:
    turns()._charge(0.9)  # a device that others use kept an honest program waiting
    with pytest.raises(Fault, match="timed_out"):
        turns()._charge(1.1)
    account = turns()
    with pytest.raises(Fault, match="timed_out"):
        for _ in range(20):
            account._charge(0.1)
    turns(trusted=True)._charge(3.0)
