"""Workers with no compiler and no device, for tests of leases: real processes, free evaluation.

Run as a script it is one worker on the database of a URL. ``--die N`` has it killed by SIGKILL at its
N-th moment: moments are before and after each statement and each commit, and before and after judging.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from machines import BOUNDLESS
from play import Deterministic, Silent, Watcher, settings_of
from sqlalchemy import Engine, event

from kb.database import open_url, outlast
from search.attempt import Diagnosis
from search.drivers.batched import BatchedDriver
from search.judging import Judge
from search.judging.known_kernels import Calibration
from search.judging.spool.job import Job, JobAnswer, assign
from search.judging.synthetic import Synthetic
from search.loop import Search
from search.policies import POLICIES
from search.prompting.readings import RecordingRetriever
from search.runs.storage import Record, Storage
from search.task import Task, TaskFile
from search.work.client import QueuedJudge
from search.work.queue import WorkQueue
from search.work.worker import JudgingWorker

ROUNDS = 6
CONTEXT = "synthetic-1 / a processor / 2.13"
STEADY = Calibration(arithmetic=1e-3, memory=2e-3)
TASK = Task(
    name="none",
    path=Path("none.py"),
    reference=Path("none.py"),
    source="",
    settings=TaskFile(reference="none.py"),
)


def job(source: str | None, expected: str = CONTEXT, seed: int = 0, **values: Any) -> Job:
    asked = assign(TASK, BOUNDLESS).job(source, expected="" if source is None else expected)
    return replace(asked, seed=seed, **values)


def answer(job: Job, context: str = CONTEXT) -> JobAnswer:
    judge = Synthetic()
    if job.source is None:
        prepared = judge.prepare()
        return JobAnswer(job=job.name, context=context, facts={}, prepared=prepared)
    return JobAnswer(job=job.name, context=context, facts={}, outcome=judge.judge(job.source))


class FreeJudge:
    """Makes outcomes up in this process, and can be told to be as slow as another device."""

    device = "cpu"

    def __init__(
        self,
        tick: Callable[[], None] = lambda: None,
        *,
        seconds: float = 0.0,
        point: Callable[[], None] = lambda: None,
        host: str = "here",
    ) -> None:
        self.task = ""
        self.context = CONTEXT
        self.facts: Mapping[str, Any] = {"host": host, "device": "a processor"}
        self.speed = [STEADY]
        self.judged: list[str] = []
        self._tick = tick
        self._seconds = seconds
        self._point = point

    def open(self) -> None: ...

    def close(self) -> None: ...

    def ask(self, job: Job) -> JobAnswer:
        self._point()
        end = time.monotonic() + self._seconds
        while time.monotonic() < end:
            self._tick()
            time.sleep(0.01)
        self.task = job.bench
        self.judged.append(job.name)
        self._point()
        return answer(job)

    def calibrate(self) -> Calibration:
        return self.speed.pop(0) if len(self.speed) > 1 else self.speed[0]


class Moments:
    """Counts what a worker does, and ends it without a word at one of them."""

    def __init__(self, engine: Engine, last: int) -> None:
        self._left = last
        for name in ("before_cursor_execute", "after_cursor_execute", "commit", "begin"):
            event.listen(engine, name, lambda *_: self.pass_by())

    def pass_by(self) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def children(url: str, lease: float, most: int) -> None:
    """Fork workers that die at their first, second, … moment; end with the first that needs no more."""
    for last in range(1, most):
        child = os.fork()
        if child == 0:
            work(url, lease=lease, last=last)
            os._exit(7 if last > 1 else 0)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status):
            print(f"moments {last}", flush=True)
            return
        assert os.WTERMSIG(status) == signal.SIGKILL
    raise SystemExit(f"still at work after {most} moments")


def work(url: str, *, lease: float, last: int = 0, seconds: float = 0.0, once: bool = True) -> None:
    engine = open_url(url, "--database")
    queue = WorkQueue(engine, lease=lease)
    point: Callable[[], None] = Moments(engine, last).pass_by if last else lambda: None
    worker = JudgingWorker(
        queue,
        lambda tick: FreeJudge(tick, seconds=seconds, point=point),
        None,
        say=lambda line: print(line, file=sys.stderr, flush=True),
        report=lambda line: print(line["job"], flush=True),
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        if threading.current_thread() is threading.main_thread():
            signal.signal(number, lambda *_: worker.stop())
    worker.run(once=once)


def search_with(storage: Storage, record: Record, judge: Judge, rounds: int = ROUNDS) -> None:
    """Play a run to its end, or from where it is."""
    settings = settings_of(search={"rounds": rounds, "ideas": 4, "branches": 2})
    judge.prepare()
    search = Search(
        record,
        POLICIES.create("beam"),
        settings,
        lambda attempt: Diagnosis(symptoms=(), lines=()),
        lambda: 0.0,
        context="crew",
    )
    witness = RecordingRetriever(Silent())
    BatchedDriver(search, Deterministic(), judge, storage, witness, Watcher()).run()


def drive(url: str, lease: float, rounds: int, task: str = "play") -> None:
    """Search in the database of a URL, judged by its workers; go on with the task's run that is there."""
    engine = open_url(url, "--database")

    def go_on() -> None:
        storage = Storage(engine)
        runs = [one.run for one in storage.runs() if one.run.startswith(f"{task}-")]
        record = storage.record(runs[0]) if runs else storage.begin(task, {})
        queue = WorkQueue(engine, lease=lease)
        say = lambda line: print(line, file=sys.stderr, flush=True)  # noqa: E731 - as short as it is
        search_with(storage, record, QueuedJudge(queue, assign(TASK, BOUNDLESS), say=say), rounds)

    outlast(engine, go_on)


def command(url: str, *options: str) -> list[str]:
    return [sys.executable, __file__, url, *options]


@contextmanager
def started(url: str, *options: str) -> Iterator[subprocess.Popen[str]]:
    """Run a worker as a process of its own, which is gone at the end."""
    place = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    process = subprocess.Popen(
        command(url, *options),
        env={**os.environ, **place},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("url")
    options.add_argument("--lease", type=float, default=60.0)
    options.add_argument("--seconds", type=float, default=0.0)
    options.add_argument("--each-moment", type=int, default=0)
    options.add_argument("--once", action="store_true")
    options.add_argument("--drive", action="store_true")
    options.add_argument("--rounds", type=int, default=ROUNDS)
    options.add_argument("--task", default="play")
    given = options.parse_args()
    if given.drive:
        drive(given.url, given.lease, given.rounds, given.task)
    elif given.each_moment:
        children(given.url, given.lease, given.each_moment)
    else:
        work(given.url, lease=given.lease, seconds=given.seconds, once=given.once)
