"""What a runner may take to be ready for a turn; real ones that dawdle are in the corpus of cheats."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from search.judging.cpu.timing import CpuPinning
from search.judging.cpu.turns import Turns
from search.sandbox.faults import Fault


def turns(*outputs: torch.Tensor, trusted: bool = False) -> Turns:
    """What keeps the account of a runner with these answers, which is never started."""
    arena, seats = cast("Any", SimpleNamespace(outputs=outputs)), CpuPinning(stage=0, seat=0)
    made = Turns(arena, cast("Any", None), seats, seconds=1.0, trusted=trusted)
    made._call = 2  # in its first turn it has its memory to look through
    return made


def test_thousands_of_turns_on_a_busy_machine_are_not_held_against_a_runner() -> None:
    account = turns()
    for _ in range(5000):
        account._charge(0.0009)


def test_a_little_in_each_turn_and_much_in_one_are_too_much() -> None:
    with pytest.raises(Fault, match="timed_out"):
        turns()._charge(0.3)
    account = turns()
    with pytest.raises(Fault, match="timed_out"):
        for _ in range(20):
            account._charge(0.1)
    turns(trusted=True)._charge(3.0)


def test_overwriting_a_freed_answer_in_the_hosts_memory_is_not_the_runners_time() -> None:
    large = 512 << 20  # bytes
    host = cast("Any", SimpleNamespace(nbytes=large, device=torch.device("cpu")))
    device = cast("Any", SimpleNamespace(nbytes=large, device=torch.device("cuda")))
    account = turns(host)
    for _ in range(100):
        account._charge(0.05)
    account = turns(device)
    with pytest.raises(Fault, match="timed_out"):
        for _ in range(100):
            account._charge(0.05)
