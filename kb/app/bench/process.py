"""Has one problem worked on in a process of its own, and makes a row of what it says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from kb.app.bench.devices import BenchDevice
from kb.app.bench.rows import Status, SuiteRow, answered_row, one_line, solved_row
from kb.app.live import RunIsLive
from kb.errors import ConnectionLost, StoreError
from kb.progress import say

if TYPE_CHECKING:
    from search.task import Task

# The paths are this process's own: a file in the current folder must not pass for a library.
_CHILD = (
    "import gc, json, sys; sys.path[:] = json.loads(sys.argv[1])\n"
    "from kb.app.bench.child import main\n"
    "try: main()\n"
    "finally: gc.freeze()"  # see `kb.cli.main`
)
_GRACE = 900.0  # seconds beyond four times the budget, after which a run hangs
ENDING = 60.0  # seconds to end in after an interruption


@dataclass(frozen=True, kw_only=True)
class ProblemJob:
    """A problem to be worked on.

    Attributes:
        blank: its row, with all that is known before it begins.
        run: a run to go on with.
        log: file of what its process prints.
        samples: file of what its winner is answered on besides, None for nothing.
        kernels: that are written for them, at most; they are kept beside the log.
        patience: seconds after which it is ended; None for what the budget suggests.
    """

    task: Task
    home: Path
    blank: SuiteRow
    run: str | None
    log: Path
    samples: Path | None = None
    kernels: int = 0
    patience: float | None = None


@dataclass(kw_only=True, eq=False)
class ProblemProcess:
    """The process of one problem.

    Args:
        begun: takes the name of the run as soon as there is one.
        started: its process, where that was started before, see `start_process`.
    """

    job: ProblemJob
    device: BenchDevice
    begun: Callable[[str], None]
    started: subprocess.Popen[str] | None = None
    _process: subprocess.Popen[str] | None = None
    _stopped: bool = False
    _overdue: bool = False
    _events: dict[str, dict[str, Any]] = field(default_factory=dict)
    _answers: list[list[str]] = field(default_factory=list)

    def run(self) -> SuiteRow | None:
        """Return the problem's row, None where it was interrupted, or another process works on its run."""
        began = time.monotonic()
        self.job.log.parent.mkdir(parents=True, exist_ok=True)
        with self.job.log.open("ab") as log:
            self._process = self.started or start_process(self.device, log)
        if self._stopped:
            self.interrupt()
        timer = self._timer()
        try:
            self._listen(self._process)
        finally:
            if timer is not None:
                timer.cancel()
            self._end()
        return self._row(time.monotonic() - began)

    def interrupt(self) -> None:
        """Have the process end as its run can be gone on with."""
        self._stopped = True
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGINT)
            _later(ENDING, self._kill)  # one that waits for a GPU hears no signal

    def _timer(self) -> threading.Timer | None:
        minutes = self.job.task.settings.stop.minutes
        if self.job.patience is not None:
            return _later(self.job.patience, self._too_long)
        return None if minutes is None else _later(240 * minutes + _GRACE, self._too_long)

    def _too_long(self) -> None:
        self._overdue = True
        self._kill()

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        settings = self.job.task.settings.model_dump(mode="json")
        told = {"home": str(self.job.home), "path": str(self.job.task.path), "run": self.job.run,
                "name": self.job.task.name, "settings": settings, "kernels": self.job.kernels,
                "samples": str(self.job.samples) if self.job.samples else None,
                "log": str(self.job.log), "folder": str(self.job.log.with_suffix(""))}  # fmt: skip
        with suppress(BrokenPipeError), process.stdin as out:  # it died at its start
            out.write(json.dumps(told))
        with process.stdout as events:
            for line in events:
                self._hear(json.loads(line))

    def _hear(self, event: dict[str, Any]) -> None:
        self._events[event["event"]] = event
        if event["event"] == "answer":
            self._answers.append(event["answer"])
        if event["event"] == "run":
            self.begun(event["run"])

    def _end(self) -> None:
        assert self._process is not None
        try:
            self._process.wait(ENDING)
        except subprocess.TimeoutExpired:
            self._kill()
            self._process.wait()

    def _kill(self) -> None:
        assert self._process is not None
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _row(self, seconds: float) -> SuiteRow | None:
        """Return what the events and the end of the process come to, None where the run is to be gone on with."""
        events, code = self._events, self._process.returncode if self._process else 0
        blank = replace(self.job.blank, at=time.time(), run=self._run())
        if "end" in events:
            return answered_row(self._reported(blank), events["end"]["answers"])
        if self._stopped or "interrupted" in events or self._is_anothers():
            return None
        if "report" in events and "error" not in events:
            return self._died_at_a_sample(blank, code)
        self._require_knowledge()
        judged: Status = "unsolved" if "judged" in events else "not_judged"
        row = replace(blank, status=judged, seconds=round(seconds, 3))
        if "error" in events:
            return _refused(row, events["error"])
        if self._overdue:
            return replace(row, reason=f"not done after {seconds:.0f} s: ended")
        return replace(row, reason=_died(code, self.job.log))

    def _require_knowledge(self) -> None:
        """See that the knowledge base could be used.

        Raises:
            StoreError: it could not, as it could not for any other problem.
        """
        error = self._events.get("error", {})
        if error.get("kind") in (StoreError.__name__, ConnectionLost.__name__):
            raise StoreError(f"{error['message']} (the suite ends here; the same command goes on)")

    def _is_anothers(self) -> bool:
        """Say whether another process works on the run, and tell the user."""
        error = self._events.get("error", {})
        if error.get("kind") != RunIsLive.__name__:
            return False
        say(f"{self.job.task.name} is left alone: {error['message']}")
        return True

    def _reported(self, blank: SuiteRow) -> SuiteRow:
        told = self._events["report"]
        failures = tuple((kind, one_line(reason), n) for kind, reason, n in told["failures"])
        return solved_row(replace(blank, failures=failures), told["report"])

    def _died_at_a_sample(self, blank: SuiteRow, code: int) -> SuiteRow:
        """Return the row of a run that ended, and whose process died at another sample of the operator.

        Candidates have processes of their own: what died is the operator itself. That sample counts as no kernel's,
        and what was answered before counts.
        """
        row = answered_row(self._reported(blank), self._answers)
        if row.reason:
            return row
        at = self._events.get("sample", {}).get("sample", "the other samples")
        why = "it took too long" if self._overdue else _died(code, self.job.log)
        return replace(row, reason=one_line(f"not all samples were tried: at {at} {why}"))

    def _run(self) -> str | None:
        return self._events["run"]["run"] if "run" in self._events else self.job.run


def start_process(device: BenchDevice, log: IO[bytes] | int, *more: str) -> subprocess.Popen[str]:
    """Start the process of a problem, which then waits to be told which.

    Args:
        log: takes what it prints until then.
        more: ``warm`` has it import all that a run takes while it waits.
    """
    return subprocess.Popen(
        [sys.executable, "-P", "-c", _CHILD, json.dumps(sys.path), *more],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
        env={**os.environ, **device.environment},
        start_new_session=True,  # Ctrl-C is the suite's, which then ends this in order
    )


def _later(seconds: float, act: Callable[[], None]) -> threading.Timer:
    timer = threading.Timer(seconds, act)
    timer.daemon = True
    timer.start()
    return timer


def _refused(row: SuiteRow, error: dict[str, Any]) -> SuiteRow:
    """Return the row of a problem that one line says all of."""
    if error["kind"] == "NoRecipe":  # the judge would have judged, had anything been written
        return replace(row, status="unsolved", reason=one_line(f"no recipe: {error['message']}"))
    return replace(row, reason=one_line(error["message"]))


def _died(code: int, log: Path) -> str:
    """Say of what a process died that should not have."""
    if code < 0:
        name = signal.Signals(-code).name
        why = " (out of memory?)" if name == "SIGKILL" else ""
        return f"its process was ended by {name}{why}: see {log}"
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    last = lines[-1] if lines else "nothing printed"
    return one_line(f"its process ended with code {code}: {last} (see {log})")
