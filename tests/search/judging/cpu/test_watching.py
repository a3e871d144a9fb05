"""Sessions whose calls nobody saw end, since the machine gave the judge no processor meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from search.judging.cpu import calls, handling, turns, watching
from search.judging.cpu.judge import CpuJudge
from search.judging.cpu.timing import CpuPinning, Sample, Timing, choose_seats, one_thread
from search.judging.cpu.turns import Turns
from search.judging.cpu.watching import ENOUGH, Waking, believed, seen_at_once, seen_share, watched
from search.outcome import Passed, Ratio
from search.sandbox.shared_memory import PREPARE, READY
from search.won_or_lost import fate_of

TAKES_TURNS = """
import os, sys, time
place, turn, length = int(sys.argv[1]), int(sys.argv[2]), 0.004
os.sched_setaffinity(0, {place})
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
while True:
    number = int(time.monotonic() / length)
    end = (number + 1) * length
    if number % 2 == turn:
        while time.monotonic() < end: pass
    else:
        time.sleep(max(0.0, end - time.monotonic()))
"""


def test_nobody_is_given_more_than_the_least_time_of_waking_up() -> None:
    waking = Waking()
    sample = Sample(30e-6, (), True)
    assert waking.less(sample) == sample
    for seconds in (25e-6, 20e-6, 28e-6):
        waking.note(seconds)
    assert waking.less(sample).seconds == pytest.approx(10e-6)
    assert waking.less(Sample(20e-6, (), True)).seconds > 0


def test_waking_that_was_seen_on_a_busy_machine_only_leaves_a_call_its_time() -> None:
    waking = Waking()
    for seconds in (4e-3, 6e-3):
        waking.note(seconds)
    # Nothing was left of this one: it was refused as faster than its task can be done.
    assert waking.less(Sample(700e-6, (), True)).seconds >= 500e-6


def test_where_waking_takes_long_nobody_saw_anything() -> None:
    waking = Waking()
    assert watched(lambda: timing(0.9), waking=waking).seen == 0.9
    for seconds, seen in ((4e-3, 0.0), (5e-3, 0.0), (60e-6, 0.9), (4e-3, 0.9), (4e-3, 0.0)):
        waking.note(seconds)
        assert watched(lambda: timing(0.9), waking=waking).seen == seen


@pytest.mark.parametrize(
    ("late", "took", "seen"),
    [
        (40_000, 60_000, True),  # a short call
        (60_000, 1_000_000, False),
        (900_000, 50_000_000, True),
        (6_000_000, 50_000_000, False),
    ],
)
def test_an_end_is_seen_at_once_within_a_fiftieth_of_the_call(
    late: int, took: int, seen: bool
) -> None:
    assert seen_at_once(late, took) == seen


def timing(seen: float) -> Timing:
    speedup = {"eager": Ratio(ratio=3.0, low=2.9, high=3.1), "compile": Ratio(ratio=0.5, low=0.4, high=0.6)}
    return Timing(seconds={"candidate": seen}, samples=1, speedup=speedup, seen=seen)


def test_what_nobody_saw_is_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "_PAUSES", (0.0, 0.0))
    forgotten: list[int] = []

    def session(*shares: float) -> Timing:
        forgotten.clear()
        rest = iter(shares)
        return watched(lambda: timing(next(rest)), lambda: forgotten.append(1))

    assert session(0.9).seen == 0.9
    assert not forgotten
    assert seen_share(session(0.1, 0.7, 0.2)) == {}
    assert len(forgotten) == 1
    assert seen_share(session(0.1, 0.2, 0.3)) == {"seen": 0.3}  # the last one stands
    assert len(forgotten) == 2


def test_nothing_follows_from_times_of_calls_that_nobody_saw_end() -> None:
    assert believed(timing(0.5)) == timing(0.5).speedup
    told = believed(timing(0.4))
    assert [ratio.ratio for ratio in told.values()] == [1.0, 0.5]
    assert [fate_of(ratio) for ratio in told.values()] == ["even", "even"]
    assert all(ratio.high > 10 * ratio.low for ratio in told.values())


class Words(dict[int, int]):
    """Control words of a runner that takes its turn only while the judge does not look."""

    def __init__(self, clock: list[int], turn: int) -> None:
        super().__init__()
        self._clock, self._turn, self._began = clock, turn, 0

    def __setitem__(self, word: int, value: int) -> None:
        super().__setitem__(word, value)
        if word == PREPARE:
            self._began = self._clock[0]

    def __getitem__(self, word: int) -> int:
        if word == READY and self._clock[0] - self._began < self._turn:
            self._clock[0] += self._turn  # away for a turn, in which the runner gets ready and then spins
            return 0
        return super().__getitem__(PREPARE if word == READY else word)


@pytest.mark.parametrize("turn", [4_000_000, 100_000])
def test_turns_in_which_the_judge_was_away_are_not_held_against_a_runner(
    turn: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0]
    monkeypatch.setattr(turns, "waited", lambda _: 0)
    monkeypatch.setattr(turns, "waited_here", lambda: 0)
    monkeypatch.setattr(turns.time, "monotonic", lambda: clock[0] / 1e9)
    monkeypatch.setattr(turns.time, "monotonic_ns", lambda: clock[0])
    worker = SimpleNamespace(child=SimpleNamespace(pid=1), resume=lambda: None)
    account = Turns(
        SimpleNamespace(words=Words(clock, turn)),  # type: ignore[arg-type] # its words alone
        worker,  # type: ignore[arg-type] # what a turn asks of it
        CpuPinning(stage=0, seat=1),
        seconds=1.0,
        trusted=False,
    )
    monkeypatch.setattr(account, "_stop", lambda: None)
    monkeypatch.setattr(account, "_cpu_time", lambda: clock[0])
    monkeypatch.setattr(account, "check_alive", lambda **_: None)
    account._ticks = 1
    for _ in range(2000):
        account._ticks = clock[0]
        account._ready()


LONG = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        for _ in range(20):
            x = torch.softmax(x, -1)
        return x
def get_inputs():
    return [torch.randn(64, 4096)]
def get_init_inputs():
    return []
"""


def test_a_call_that_does_nothing_is_waited_for_awake_however_long_others_are(
    make_judge: Callable[..., CpuJudge], monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = make_judge(LONG)
    judge.prepare()
    eager = judge._baselines._seated["eager"]
    slept: list[float] = []
    monkeypatch.setattr(calls.time, "sleep", slept.append)
    with one_thread():
        eager.place(judge._draws.draw(audit=False))
        eager.sample()
        assert slept, "its calls are long: nobody need watch their beginning"
        slept.clear()
        eager.wake()
    assert not slept


def test_on_one_processor_calls_are_seen_to_end_and_what_is_faster_is_faster(
    make_judge: Callable[..., CpuJudge], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handling, "_known", {})
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        once = LONG.replace("Model(", "ModelNew(").replace("x = ", "y = ").replace("return x", "return y")
        judge = make_judge(once.replace("ModelNew(", "Model("), alone=True)
        outcome = judge.judge(once.replace("range(20)", "range(1)"))
    finally:
        os.sched_setaffinity(0, allowed)
    assert isinstance(outcome, Passed), outcome
    assert not outcome.unseen
    assert outcome.speedup["eager"].ratio > 2  # of twenty; on a busy machine the interval is wide


@contextmanager
def one_processor_for_two() -> Iterator[None]:
    """Take the judge's two processors away in turns, as a machine does that others share."""
    seats = choose_seats()
    if seats.shared:
        pytest.skip("one processor")
    try:
        before = os.sched_getscheduler(0)
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        os.sched_setscheduler(0, before, os.sched_param(0))
    except PermissionError:
        pytest.skip("real-time priority is not permitted")
    others = [
        subprocess.Popen([sys.executable, "-c", TAKES_TURNS, str(place), str(turn)])
        for turn, place in enumerate((seats.stage, seats.seat))
    ]
    try:
        time.sleep(0.2)
        yield
    finally:
        for other in others:
            other.send_signal(signal.SIGKILL)
            other.wait()


@pytest.mark.slow
def test_an_honest_program_is_not_refused_where_the_judge_is_seldom_there(
    make_judge: Callable[..., CpuJudge], norm_source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = make_judge(norm_source)
    judge.prepare()
    monkeypatch.setattr(watching, "_PAUSES", (0.0, 0.0))
    for module in (calls, turns):  # another machine's time is in no queue of this one
        monkeypatch.setattr(module, "waited", lambda _: 0)
        monkeypatch.setattr(module, "waited_here", lambda: 0)
    with one_processor_for_two():
        outcome = judge.judge(norm_source.replace("class Model", "class ModelNew"))
    assert isinstance(outcome, Passed), outcome
    assert outcome.unseen
    assert outcome.profile["seen"] < ENOUGH
