"""One call of `kb bench`: which problems are left, their processes, their rows."""

from __future__ import annotations

import re
import subprocess
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from kb.app.bench.devices import BenchDevice, Dealer, choose_devices
from kb.app.bench.process import ProblemJob, ProblemProcess, start_process
from kb.app.bench.record import SuiteRecord, SuiteRecords
from kb.app.bench.rows import SuiteRow, key_of
from kb.app.bench.suites import Suite, SuiteOptions
from kb.app.choices import choose_author
from kb.app.device import JudgingDevice, choose_place, judge_version
from kb.config import Home

if TYPE_CHECKING:
    from search.task import Task


@dataclass(kw_only=True)
class Bench:
    """A suite that is worked on.

    Attributes:
        name: of the record, which a second call with the same options goes on with.
        waiting: problems that have no row yet.
        present: how many have one.
        again: what is waiting is worked on again.
        kernels: see `SuiteOptions`.
        patience: see `ProblemJob`.
    """

    home: Home
    suite: Suite
    place: JudgingDevice
    devices: tuple[BenchDevice, ...]
    records: SuiteRecords
    name: str
    waiting: list[Task]
    present: int
    again: bool = False
    kernels: int = 0
    patience: float | None = None
    _running: set[Any] = field(default_factory=set)
    _lock: Any = field(default_factory=threading.Lock)
    _stopped: bool = False
    _warm: dict[str, subprocess.Popen[str]] = field(default_factory=dict)
    _begun: int = 0  # problems that were dealt out

    @classmethod
    def begin(
        cls,
        home: Home,
        suite: Suite,
        options: SuiteOptions,
        *,
        devices: str,
        again: bool,
        patience: float | None = None,
    ) -> Bench:
        """Find the suite's record, or make it, and what is left to do.

        Args:
            devices: see `choose_devices`.
            again: problems that have a row are worked on again; where that was interrupted, those that are left.
            patience: seconds after which a problem is ended, see `ProblemJob`.

        Raises:
            ConfigError: the device cannot be used.
        """
        from kb.knowledge import open_tables

        place = choose_place(options.target or "auto")
        slots = choose_devices(devices, place.how)
        records = SuiteRecords(open_tables(home))
        name = records.begin(about(suite, options, place))
        left = _left(records, name, suite.tasks, again=again)
        return cls(
            home=home,
            suite=suite,
            place=place,
            devices=slots,
            records=records,
            name=name,
            waiting=left,
            present=len(suite.tasks) - len(left),
            again=again,
            kernels=options.kernels or 0,
            patience=patience,
        )

    def run(self) -> Iterator[SuiteRow]:
        """Work on what is waiting, and yield each row once it is on record."""
        dealer: Dealer[Task, SuiteRow] = Dealer(self.devices, self._work, self._interrupt)
        try:
            for number, row in enumerate(dealer.run(self.waiting), 1):
                self.records.ended(self.name, row)
                if self.again and number == len(self.waiting):
                    self.records.end_again(self.name, (task.name for task in self.suite.tasks))
                yield row
        finally:
            for process in self._warm.values():
                process.kill()
                process.communicate()

    def result(self) -> SuiteRecord:
        """Return the suite as it is on record."""
        return self.records.suite(self.name)

    def _work(self, task: Task, device: BenchDevice) -> SuiteRow | None:
        key = key_of(task)
        row, run = self.records.state(self.name, task.name, key)
        if row is not None:  # asked for again
            run = None
        job = ProblemJob(
            task=task,
            home=self.home.root,
            blank=self._blank(task, key),
            run=run,
            log=self.home.root / "suites" / self.name / f"{file_name(task.name, key)}.log",
            samples=self.suite.samples.get(task.name),
            kernels=self.kernels,
            patience=self.patience,
        )
        process = ProblemProcess(
            job=job,
            device=device,
            begun=lambda name: self.records.begun(self.name, task.name, key, name),
            started=self._started(device),
        )
        with self._lock:
            if self._stopped:
                return None
            self._running.add(process)
        try:
            return process.run()
        finally:
            with self._lock:
                self._running.discard(process)

    def _started(self, device: BenchDevice) -> subprocess.Popen[str] | None:
        """Return a process that has imported all, if there is one, and start one for a problem that is left.

        None is started on a processor, which it would disturb.
        """
        if self.place.how != "cuda":
            return None
        found = self._warm.pop(device.name, None)
        with self._lock:
            self._begun += 1
            left = len(self.waiting) - self._begun - len(self._warm)
        if left > 0:
            self._warm[device.name] = start_process(device, subprocess.DEVNULL, "warm")
        if found is not None and found.poll() is not None:  # short memory takes what waits, too
            found.communicate()
            return None
        return found

    def _interrupt(self) -> None:
        with self._lock:
            self._stopped = True
            for process in self._running:
                process.interrupt()

    def _blank(self, task: Task, key: str) -> SuiteRow:
        return SuiteRow(
            problem=task.name,
            key=key,
            status="not_judged",
            target=self.place.target.name,
            author=choose_author(task.settings),
            precision=task.precision,
            judge=judge_version(self.place),
            torch=version("torch"),
        )


def _left(records: SuiteRecords, name: str, tasks: Sequence[Task], *, again: bool) -> list[Task]:
    """Return the tasks of a suite that have no row yet, with `again` none since all began again."""
    rows = [records.state(name, task.name, key_of(task))[0] for task in tasks]

    def without(since: float) -> list[Task]:
        pairs = zip(tasks, rows, strict=True)
        return [task for task, row in pairs if row is None or row.at < since]

    if not again:
        return without(0.0)
    names = [task.name for task in tasks]
    since = records.again_since(name, names)
    left = [] if since is None else without(since)
    return left or without(records.begin_again(name, names))


def file_name(name: str, key: str) -> str:
    """Return what a problem's files are named after: its name, or what is left of one that is a path or long."""
    safe = re.sub(r"[^\w.-]+", "-", name, flags=re.ASCII).strip(".-")[:100]
    return name if safe == name else f"{safe}-{key}"


def about(suite: Suite, options: SuiteOptions, place: JudgingDevice) -> dict[str, Any]:
    """Return what a suite's figures depend on besides its problems."""
    return {
        "name": suite.name,
        "target": place.target.name,
        "timed": place.how != "dry",
        "judge": judge_version(place),
        "torch": version("torch"),
        "precision": options.precision or "of each task",
        "candidates": options.candidates,
        "seconds": options.seconds,
        "seed": options.seed,
        "author": options.author or "auto",
        **({} if suite.folder is None else {"folder": str(suite.folder)}),
        **({} if options.final is None else {"final": options.final}),
        **({} if options.kernels is None else {"kernels": options.kernels}),
    }
