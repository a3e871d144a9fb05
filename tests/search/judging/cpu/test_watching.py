"""Calls whose end nobody saw at once, since the machine gave the judge no processor meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from search.judging.cpu import calls, turns, watching
from search.judging.cpu.judge import CpuJudge
from search.judging.cpu.timing import choose_seats
from search.judging.cpu.watching import ENOUGH, WatchedCalls, watched
from search.outcome import Passed

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


def spin(seconds: float) -> int:
    began = time.perf_counter_ns()
    while time.perf_counter_ns() - began < seconds * 1e9:
        pass
    return time.perf_counter_ns() - began


def sleep(seconds: float) -> int:
    began = time.perf_counter_ns()
    time.sleep(seconds)
    return time.perf_counter_ns() - began


def note(watch: WatchedCalls, wait: Callable[[float], int], *, slept: int = 0) -> bool:
    watch.begin()
    return watch.end(wait(0.01), slept)


def test_who_sleeps_does_not_see_the_end_and_who_spins_does() -> None:
    watch = WatchedCalls(shared=False)
    assert not note(watch, sleep)
    assert any(note(watch, spin) for _ in range(50))  # others take the processor now and then
    watch.forget()
    assert watch.share == 1.0 and watch.told() == {}
    assert note(watch, sleep, slept=10_000_000)  # nobody had to watch


def test_one_processor_for_both_is_no_reason() -> None:
    assert note(WatchedCalls(shared=True), sleep)


def test_what_nobody_saw_is_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "_PAUSES", (0.0, 0.0))
    watch, forgotten, waits = WatchedCalls(shared=False), [], [sleep, sleep, sleep]

    def run() -> int:
        note(watch, waits.pop())
        return len(waits)

    assert watched(run, watch, lambda: forgotten.append(1)) == 0  # the last one stands
    assert len(forgotten) == 2 and watch.told() == {"watched": 0.0}
    assert watched(lambda: 7, watch, forgotten.clear) == 7
    assert forgotten and watch.share >= ENOUGH


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
    monkeypatch.setattr(watching, "_PAUSES", (0.0,))
    for module in (calls, turns):  # another machine's time is in no queue of this one
        monkeypatch.setattr(module, "waited", lambda _: 0)
        monkeypatch.setattr(module, "waited_here", lambda: 0)
    with one_processor_for_two():
        outcome = judge.judge(norm_source.replace("class Model", "class ModelNew"))
    assert isinstance(outcome, Passed), outcome
    assert outcome.profile["watched"] < ENOUGH
