"""A runner that starts beside something else, and what the kernel tells of processes."""

import os
import subprocess
import sys
import threading
from typing import Any, cast

import pytest

from search.sandbox import ptrace
from search.sandbox.ptrace import kernel_text, preemptions
from search.sandbox.runner_handle import WorkerBeside
from search.sandbox.zygote import Zygote


class Process:
    def __init__(self, *, lives: bool) -> None:
        self.lives = lives

    def stands(self) -> bool:
        return self.lives


def test_it_is_started_once_and_another_one_where_it_has_died() -> None:
    started: list[Process] = []

    def start() -> Any:
        started.append(Process(lives=bool(started)))
        return started[-1]

    runner = WorkerBeside(start)
    runner.begin()
    runner.begin()
    assert len(started) == 1
    assert cast("Any", runner.standing()) is started[1]


def test_where_nothing_ran_beside_it_is_started_when_it_is_needed() -> None:
    made = Process(lives=True)
    assert cast("Any", WorkerBeside(lambda: cast("Any", made)).standing()) is made


def test_what_the_kernel_tells_is_of_now_and_ends_with_the_process() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        name = f"task/{process.pid}/schedstat"
        assert kernel_text(process.pid, name)
        process.communicate(b"\n")
        with pytest.raises(OSError, match=r"No such"):
            kernel_text(process.pid, name)
    ran = []
    for _ in range(2):
        ran.append(int(kernel_text(os.getpid(), f"task/{os.getpid()}/schedstat").split()[0]))
        sum(range(1_000_000))
    assert ran[1] > ran[0], "the file is read again"


@pytest.mark.parametrize(
    "behind",
    ["", "x86_Thread_features:\t\nx86_Thread_features_locked:\t\n"],
)
def test_how_often_a_process_was_preempted_is_told(
    behind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    status = (
        f"Name:\tpython\nvoluntary_ctxt_switches:\t4\nnonvoluntary_ctxt_switches:\t597\n{behind}"
    )
    monkeypatch.setattr(ptrace, "kernel_text", lambda *_: status)
    assert preemptions(1) == 597
    monkeypatch.setattr(ptrace, "kernel_text", lambda *_: "Name:\tpython\n")
    assert preemptions(1) == 0


def test_few_files_of_the_kernel_stay_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ptrace, "_MOST_OPEN", 2)
    files = ptrace._KernelFiles()
    before = len(os.listdir("/proc/self/fd"))
    for name in ("stat", "status", "limits", "stat", "cmdline") * 3:
        assert files.text(f"/proc/self/{name}")
    assert len(os.listdir("/proc/self/fd")) == before + 2
    del files
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_thread_that_ends_closes_the_files_that_it_opened() -> None:
    kernel_text("self", "stat")
    before = len(os.listdir("/proc/self/fd"))
    opened: list[int] = []

    def ask() -> None:
        for name in ("stat", "status", "limits"):
            kernel_text("self", name)
        opened.append(len(os.listdir("/proc/self/fd")))

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert opened == [before + 3]
    assert len(os.listdir("/proc/self/fd")) == before


class Dying:
    """A child that was killed."""

    status: int | None = None

    def __init__(self, name: str, gone: list[str]) -> None:
        self.name, self._gone = name, gone

    def reap(self) -> None:
        self._gone.append(self.name)


def test_one_that_was_killed_is_waited_for_beside_the_first_ones() -> None:
    gone: list[str] = []
    zygote = Zygote()
    first, second, third = (cast("Any", Dying(name, gone)) for name in "abc")
    for child in (first, second, third):
        zygote.bury(child)
    zygote.reap(2)
    assert gone == ["a"]
    zygote.reap(2, second)
    assert gone == ["a", "b"]
    zygote.reap(1, second)
    assert gone == ["a", "b"], "it is gone"
    zygote.reap(1, third)
    assert gone == ["a", "b", "c"]
