"""A runner that starts beside something else, and what the kernel tells of processes."""

import os
import subprocess
import sys
from typing import Any, cast

import pytest

from search.sandbox import ptrace
from search.sandbox.ptrace import kernel_text, preemptions
from search.sandbox.runner_handle import WorkerBeside


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
    assert cast("Any", runner.stands()) is started[1]


def test_where_nothing_ran_beside_it_is_started_when_it_is_needed() -> None:
    made = Process(lives=True)
    assert cast("Any", WorkerBeside(lambda: cast("Any", made)).stands()) is made


def test_what_the_kernel_tells_is_of_now_and_ends_with_the_process() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        name = f"task/{process.pid}/schedstat"
        ran = [int(kernel_text(process.pid, name).split()[0])]
        assert preemptions(process.pid) >= 0
        process.communicate(b"\n")
        with pytest.raises(OSError, match=r"No such"):
            kernel_text(process.pid, name)
    here = f"task/{os.getpid()}/schedstat"
    ran = [int(kernel_text(os.getpid(), here).split()[0])]
    sum(range(1_000_000))
    ran.append(int(kernel_text(os.getpid(), here).split()[0]))
    assert ran[1] > ran[0], "the file is read again"


def test_few_files_of_the_kernel_stay_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ptrace, "_MOST_OPEN", 2)
    files = ptrace._KernelFiles()
    before = len(os.listdir("/proc/self/fd"))
    for name in ("stat", "status", "limits", "stat", "cmdline") * 3:
        assert files.text(f"/proc/self/{name}")
    assert len(os.listdir("/proc/self/fd")) == before + 2
    del files
    assert len(os.listdir("/proc/self/fd")) == before
