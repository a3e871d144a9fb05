"""What a runner can do between its calls, seen from outside."""

import os
import time
from collections.abc import Callable
from typing import Any

import pytest

from search.judging.cpu.calls import Calls
from search.judging.cpu.judge import CpuJudge
from search.judging.cpu.standstill import cpu_time, settle, waited
from search.judging.cpu.watching import kept_processor
from search.sandbox.runner_handle import Worker
from search.sandbox.shared_memory import Arena

HONEST = """
import torch.nn as nn
class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.LayerNorm(n)
    def forward(self, x):
        return self.norm(x)
"""


def test_a_runner_that_is_woken_while_it_must_stand_still_is_refused(
    norm: CpuJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Calls.place

    def woken(self: Calls, *given: Any) -> None:
        place(self, *given)
        self._worker.resume()
        time.sleep(0.002)
        self._worker.stop()
        settle(self.pid, 1.0)

    monkeypatch.setattr(Calls, "place", woken)
    outcome = norm.judge(HONEST)
    assert outcome.kind == "refused", outcome
    assert outcome.trick == "work-outside-the-clock"
    assert "while it was stopped" in outcome.reason


def test_inputs_are_placed_only_while_every_thread_stands_still(
    norm: CpuJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, moved = Calls.place, []

    def watched(self: Calls, *given: Any) -> None:
        before = cpu_time(self.pid)
        place(self, *given)
        moved.append(cpu_time(self.pid) - before)

    monkeypatch.setattr(Calls, "place", watched)
    assert norm.judge(HONEST).kind == "passed"
    assert len(moved) > 20
    assert not any(moved)


def test_timed_inputs_are_placed_from_another_processor_than_the_one_that_waits(
    norm: CpuJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, end = Calls.place, Calls.end
    placed: list[tuple[bool, bool]] = []
    ended: list[bool] = []

    def watched(self: Calls, *given: Any) -> None:
        place(self, *given)
        placed.append((self.timed, os.sched_getaffinity(0) == {self._seats.stage}))

    def ending(self: Calls) -> None:
        end(self)
        ended.append(os.sched_getaffinity(0) == {self._seats.seat})

    if norm._seats.shared:
        pytest.skip("there is one processor")
    monkeypatch.setattr(Calls, "place", watched)
    monkeypatch.setattr(Calls, "end", ending)
    assert norm.judge(HONEST).kind == "passed"
    assert {away for timed, away in placed if timed} == {True}
    assert {away for timed, away in placed if not timed} == {False}
    assert ended == [True]


def test_a_runner_whose_candidate_does_not_compile_is_ended(
    norm: CpuJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, started = CpuJudge._worker, list[Worker]()

    def noted(self: CpuJudge, readable: Any) -> Worker:
        started.append(start(self, readable))
        return started[-1]

    monkeypatch.setattr(CpuJudge, "_worker", noted)
    source = "from kb.native import load_cpp\nK = load_cpp('no C++ at all')\n" + HONEST
    assert norm.judge(source).kind == "build_failed"
    norm._zygote.reap()
    assert [worker.child.handle for worker in started] == [-1], "it has ended and is forgotten"


def test_a_stopped_process_has_left_its_processor_and_uses_no_time(
    norm: CpuJudge,
) -> None:
    worker = norm._worker({})
    try:
        assert worker.stop()
        assert settle(worker.child.pid, 1.0)
        before = cpu_time(worker.child.pid)
        time.sleep(0.02)
        assert cpu_time(worker.child.pid) == before
        assert waited(worker.child.pid) >= 0
    finally:
        worker.close()


LEAVES = """
import gc
import torch.nn as nn
class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.LayerNorm(n)
        runner = next(x for x in gc.get_objects() if type(x).__name__ == "Runner")
        words = runner._arena.words
        words[300:304] = memoryview(b"a letter to the candidate after ".ljust(32)).cast("Q")
        held = sum(x.numel() for x in runner._arena.inputs) + 2 * n
        end = runner._arena._map
        end[4096 + 4 * held + 64 :] = b"x" * (len(end) - 4096 - 4 * held - 64)
    def forward(self, x):
        return self.norm(x)
"""


@pytest.mark.slow
def test_what_one_candidate_leaves_in_shared_memory_no_other_finds(
    norm: CpuJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    norm.judge(LEAVES)
    assert norm._arena is not None
    assert b"a letter" in norm._arena.words[300:304].tobytes()
    seen: list[bytes] = []
    tell = Worker.tell

    def told(self: Worker, message: dict[str, Any], seconds: float = 10.0) -> None:
        arena: Arena = norm._arena  # type: ignore[assignment] # it is there
        if message["op"] == "load":
            seen.append(arena.words[6:].tobytes() + bytes(arena._map[4096:]))
        tell(self, message, seconds)

    monkeypatch.setattr(Worker, "tell", told)
    assert norm.judge(HONEST).kind == "passed"
    (found,) = seen
    state = b"".join(bytes(x.numpy().tobytes()) for x in norm._problem.state.values())
    assert found.strip(b"\0")
    assert not set(found) - set(state) - {0}
    assert b"xxxx" not in found


def test_the_weights_are_not_left_where_the_runner_could_read_them_again(
    norm: CpuJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = Calls.begin

    def begun(self: Calls) -> None:
        for value in self._arena.state.values():
            assert bool(value.isnan().all())
        begin(self)

    monkeypatch.setattr(Calls, "begin", begun)
    assert norm.judge(HONEST).kind == "passed"


VIEW = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x.transpose(0, 1)
def get_inputs():
    return [torch.randn(64, 48)]
"""
GAPS = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return (2 * x)[:, ::2]
def get_inputs():
    return [torch.randn(64, 48)]
"""


@pytest.mark.slow
@pytest.mark.parametrize("source", [VIEW, GAPS])
def test_a_reference_may_return_a_view(make_judge: Callable[..., CpuJudge], source: str) -> None:
    judge = make_judge(source)
    body = "x.transpose(0, 1).clone()" if source is VIEW else "(2 * x)[:, ::2].contiguous()"
    candidate = source.replace("class Model", "class ModelNew")
    if source is GAPS:
        candidate = candidate.replace("(2 * x)[:, ::2]", body)
    outcome = judge.judge(candidate)
    assert outcome.kind == "passed", outcome
    assert judge._problem.views == (frozenset({0}) if source is VIEW else frozenset())


PAIR = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.kept = torch.empty(64, 48)
    def forward(self, x):
        y = x * x
        return y, OTHER
def get_inputs():
    return [torch.randn(64, 48)]
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("other", "views", "twins"), [("x.T", {1}, set()), ("y.T", set(), {0, 1})], ids=["input", "output"]
)
def test_only_outputs_that_the_reference_shares_may_lie_anywhere(
    make_judge: Callable[..., CpuJudge], other: str, views: set[int], twins: set[int]
) -> None:
    source = PAIR.replace("OTHER", other)
    judge = make_judge(source)
    assert (judge._problem.views, judge._problem.twins) == (views, twins)
    honest = source.replace("class Model", "class ModelNew")
    for same in (honest, honest.replace(other, f"{other}.clone()")):
        outcome = judge.judge(same)
        assert outcome.kind == "passed", outcome
    outcome = judge.judge(honest.replace("y = x * x", "y = torch.mul(x, x, out=self.kept)"))
    assert outcome.kind == "refused", outcome
    assert outcome.trick == "reused-output-buffer"
    outcome = judge.judge(honest.replace("y = x * x", "y = x.mul_(x)"))
    assert outcome.kind == "refused", outcome
    assert outcome.trick == "input-mutation"


@pytest.mark.slow
def test_what_runs_from_done_to_standing_still_is_in_the_time_of_the_call(
    norm: CpuJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop, times = Calls._stop, []
    call = Calls.call

    def slow(self: Calls) -> None:
        time.sleep(0.004)  # as where the sender of a signal is held up; the runner polls meanwhile
        stop(self)

    def kept(self: Calls, **given: Any) -> Any:
        answer = call(self, **given)
        if not given.get("stop_after"):
            times.append(answer.seconds)
        return answer

    monkeypatch.setattr(Calls, "_stop", slow)
    monkeypatch.setattr(Calls, "call", kept)
    norm.judge(HONEST)
    assert len(times) > 20
    # Where other programs want the processor, the runner has it in few of the pauses.
    assert sum(one > 0.002 for one in times) > len(times) / 10


def test_a_preemption_counts_where_it_took_a_part_of_the_call() -> None:
    ten_ms = 10_000_000
    assert kept_processor((0, 0), (1, 12_000), ten_ms)
    assert not kept_processor((0, 0), (1, 30_000), ten_ms)
    assert not kept_processor((0, 0), (1, 12_000), ten_ms // 10)
    assert kept_processor((3, 5), (3, 50_005), ten_ms)
    assert not kept_processor((3, 5), (3, 150_005), ten_ms)
