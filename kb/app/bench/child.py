"""The process that works on one problem: a reference may crash it, fill its memory or print.

It reads one JSON object from standard input and writes events, one JSON object a line, to the standard
output that it was given. What anything else prints goes to standard error, which is a log file.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from kb.app.bench.process import ENDING
from kb.config import Home
from kb.errors import KbError
from kb.progress import say

if TYPE_CHECKING:
    from kb.app.bench.samples import SampleAnswer
    from kb.app.run import Ended
    from kb.progress import Progress
    from search.outcome import Outcome
    from search.pieces import Result, Work
    from search.runs.storage import Record
    from search.task import Task, TaskFile

_SET_PDEATHSIG = 1
_ALL = (
    "kb.app.run", "kb.knowledge", "search.authors.recipes", "search.costs.trace", "search.judging.cuda.judge"
)  # fmt: skip
_LONG = 0.5  # seconds
_FAILURES = 3  # kinds of failure that a row keeps
_LAST: dict[str, str] = {}
_BEGAN: list[float] = []  # when the problem was asked for


def main() -> None:
    """Work on the problem that standard input names, until its run has ended."""
    # What was begun in the background ignores Ctrl-C, and so would this.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Where the suite's own process is killed, this one ends as if it were interrupted.
    ctypes.CDLL(None).prctl(_SET_PDEATHSIG, signal.SIGINT, 0, 0, 0)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    # Where memory runs out, this one is to go, and no other program of the user.
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    if "warm" in sys.argv:
        _import_all()
    asked = sys.stdin.read()
    if not asked:  # there is no other problem
        return
    job = json.loads(asked)
    _BEGAN.append(time.monotonic())
    events = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    if "warm" in sys.argv:
        os.dup2(os.open(job["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644), 2)
    os.dup2(2, 1)
    teller = _Teller(events)
    try:
        ended = _work(job, teller)
    except KbError as error:
        teller.tell(event="error", kind=type(error).__name__, message=str(error))
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        teller.tell(event="interrupted")
        sys.exit(130)
    if ended.interrupted:
        teller.tell(event="interrupted")
        sys.exit(130)
    try:
        failures = _failures(Home(Path(job["home"])), ended.run)
        teller.tell(event="report", report=ended.report, failures=failures)
        answers = _answers(job, ended, teller)
    except KbError as error:
        teller.tell(event="error", kind=type(error).__name__, message=str(error))
        sys.exit(error.exit_code)
    except KeyboardInterrupt:  # the run has ended: going on with it begins here again
        teller.tell(event="interrupted")
        sys.exit(130)
    teller.tell(event="end", answers=answers)


def _import_all() -> None:
    """Import what a run takes, before there is a problem: seconds, while a GPU works on another one."""
    from search.codegen.inductor.process import warm

    warm(hidden=True)  # it imports the compiler beside this
    for module in _ALL:
        import_module(module)


def _end_with(parent: int) -> None:
    """End this process a while after `parent`: what waits for a GPU hears no signal and keeps its memory."""
    while os.getppid() == parent:
        time.sleep(1)
    time.sleep(ENDING)
    os._exit(130)


def _work(job: dict[str, Any], teller: _Teller) -> Ended:
    from kb.app.run import evolve, resume

    home = Home(Path(job["home"])).make()
    if job["run"] is not None:
        return resume(home, job["run"], _progress, teller.watch, lambda _line: None)
    task = read_task(job)
    return evolve(home, task, _progress, teller.watch, teller.begun)


def _took() -> float:
    return time.monotonic() - _BEGAN[0]


def _progress(what: str, _done: float | None = None, _total: float | None = None, /) -> None:
    """Write each step to the log, a line each, with the seconds that the problem has taken."""
    if what != _LAST.get("what"):
        _LAST["what"] = what
        say(f"{_took():6.1f} s … {what}")


def read_task(job: dict[str, Any]) -> Task:
    """Return the task of a job: its file as it is now, with the settings of the suite."""
    from search.task import TaskFile, load_task

    settings = TaskFile.model_validate_json(json.dumps(job["settings"]))
    return replace(load_task(Path(job["path"])), name=job["name"], settings=settings)


def _answers(job: dict[str, Any], ended: Ended, teller: _Teller) -> list[tuple[str, str, str]]:
    """Return who answers the other samples of a problem that is solved: sample, who, why not a right kernel.

    Each that is tried is told before and after: the reference may end this process on an awkward one.
    """
    if job["samples"] is None or ended.report["best"] is None:
        return []
    from kb.app.bench.samples import OtherSamples, read_samples
    from kb.database import open_engine
    from search.runs.storage import Storage

    home = Home(Path(job["home"]))
    graph = Storage(open_engine(home)).record(ended.run).graph
    winner = next(one for one in graph.attempts() if one.number == ended.report["best"]["node"])
    samples = OtherSamples(
        home=home,
        task=read_task(job),
        plan=winner.draft.plan,
        folder=Path(job["folder"]),
        kernels=job["kernels"],
        begins=lambda sample: teller.tell(event="sample", sample=sample),
        ends=teller.answered,
    )
    found = samples.answers(read_samples(Path(job["samples"])))
    return [(one.sample, one.by, one.reason) for one in found]


def _failures(home: Home, run: str) -> list[tuple[str, str, int]]:
    """Return what became of the candidates that failed, the commonest first."""
    from kb.database import open_engine
    from search.outcome import STANDING
    from search.runs.storage import Storage

    graph = Storage(open_engine(home)).record(run).graph
    told = Counter(
        (node.outcome.kind, str(getattr(node.outcome, "reason", "")))
        for node in graph.nodes
        if node.outcome is not None and node.outcome.kind not in STANDING
    )
    return [(kind, reason, count) for (kind, reason), count in told.most_common(_FAILURES)]


class _Teller:
    """Writes events; shows a search by none but them."""

    def __init__(self, events: TextIO) -> None:
        self._events = events

    def tell(self, **event: Any) -> None:
        self._events.write(json.dumps(event, default=str) + "\n")

    def begun(self, run: str) -> None:
        self.tell(event="run", run=run)

    def answered(self, one: SampleAnswer) -> None:
        say(f"{one.sample}: {one.by} {one.reason}"[:2000])
        self.tell(event="answer", answer=[one.sample, one.by, one.reason])

    def watch(self, record: Record, _settings: TaskFile, _progress: Progress) -> _Logged:
        """Return what follows a search; that it is asked for says that the judge is ready."""
        self.tell(event="judged", run=record.run)
        return _Logged()


class _Logged:
    """Writes what becomes of each candidate to the log, and what took long."""

    def __init__(self) -> None:
        self._began = 0.0

    def begins(self, _work: Work) -> None:
        """Note when it is."""
        self._began = _took()

    def ends(self, work: Work, result: Result) -> None:
        """Say what became of a candidate, and the seconds of whatever took a while."""
        from search.pieces import JudgeNode

        took = f"{_took():6.1f} s"
        spent = f"{_took() - self._began:.1f} s"
        if isinstance(work, JudgeNode):
            say(
                f"{took} {work.node.number:>4}  in {spent}: {result}  {work.node.idea.title}"[:2000]
            )
        elif _took() - self._began > _LONG:
            say(f"{took} … {type(work).__name__} took {spent}")

    def confirms(self, node: int, outcome: Outcome) -> None:
        """Say what a finalist's second measurement came to."""
        say(f"{_took():6.1f} s {node:>4}  {outcome}  measured again"[:2000])
