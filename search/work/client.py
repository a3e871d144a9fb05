"""The judge of a driver whose candidates are judged by workers of the same database."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from kb.errors import ToolchainError
from search.judging.limits import Prepared
from search.judging.spool.job import Assignment, Failure, Job, JobAnswer, as_error
from search.outcome import Crashed, Outcome
from search.work.queue import WorkQueue
from search.work.roster import Roster

_LOOK = (0.02, 1.0)  # seconds between looks at the database, at first and at last
_PATIENCE = 20.0  # seconds before it looks around which workers there are


class QueuedJudge:
    """Puts candidates into the database, and waits for what workers record.

    All answers of one run come from workers of one context: judge version, device model, torch and
    group of calibrations. What is on record already is taken from there.

    Args:
        assignment: what the workers' judges are made for.
        say: is told what the user should know while it waits.
    """

    def __init__(
        self,
        queue: WorkQueue,
        assignment: Assignment,
        *,
        say: Callable[[str], None],
    ) -> None:
        self._queue = queue
        self._roster = Roster(queue.engine, silence=2 * queue.lease)
        self._assignment = assignment
        self._say = say
        self._said: set[str] = set()
        self._prepared: Prepared | None = None
        self._asked: set[str] = set()
        self.context = ""
        self.facts: Mapping[str, object] = {}

    def prepare(self, progress: Callable[[str], None] = lambda _: None) -> Prepared:
        """Have a worker do what is done before the first candidate; it decides the run's context.

        Raises:
            KbError: the task cannot be judged there; one line says why.
        """
        if self._prepared is None:
            progress(f"waiting for a worker on {self._assignment.device}")
            answer = self._ask(self._assignment.job(None))
            assert answer.prepared is not None
            self.context, self.facts = answer.context, answer.facts
            self._say(
                f"judged by workers like {self.facts.get('device')} of {self.facts.get('host')} "
                f"({self.context})"
            )
            self._prepared = answer.prepared
        return self._prepared

    def judge(self, source: str, *, thorough: bool = False) -> Outcome:
        """Return the outcome of `source` once a worker has recorded it.

        Raises:
            KbError: it could not be judged, through no fault of the candidate's.
        """
        self.prepare()
        try:
            answer = self._ask(
                self._assignment.job(source, thorough=thorough, expected=self.context)
            )
        except _Poison as found:
            return Crashed(reason=str(found))
        assert answer.outcome is not None
        return answer.outcome

    def expect(self, source: str, *, thorough: bool = False) -> None:
        """Put `source` there without waiting, so that several workers have something to do."""
        self.prepare()
        self._put(self._assignment.job(source, thorough=thorough, expected=self.context))

    def close(self) -> None:
        """Leave everything as it is: what was asked may still be answered."""

    def _put(self, job: Job) -> None:
        if job.name not in self._asked:
            self._queue.put(job)
            self._asked.add(job.name)

    def _ask(self, job: Job) -> JobAnswer:
        name = job.name
        self._put(job)
        pause, waited, end = _LOOK[0], 0.0, _PATIENCE
        while True:
            found = self._queue.look([name]).get(name)
            if found is not None and found.answer is not None:
                return found.answer
            if found is not None and found.failure is not None:
                self._asked.discard(name)  # asked again, it is tried again
                raise self._error(found.failure, job)
            time.sleep(pause)
            waited += pause
            pause = min(1.2 * pause, _LOOK[1])
            if waited > end:
                end = waited + _PATIENCE
                self._look_around(job)

    def _error(self, failure: Failure, job: Job) -> Exception:
        if failure.kind != "Died":
            return as_error(failure)
        return _Poison(failure.reason) if job.source is not None else ToolchainError(failure.reason)

    def _look_around(self, job: Job) -> None:
        """Say why nothing comes."""
        alive = self._roster.alive()
        here = [one for one in alive if job.expected in ("", one.context)]
        if not alive:
            self._once(
                "no worker is there: run `kb worker` with the same database, near the device"
            )
        elif not here:
            others = ", ".join(sorted({one.context for one in alive}))
            self._once(
                f"the run is judged by {job.expected}, the workers that are there are {others}: "
                "start one of the first kind, or end this run and begin a new one"
            )
        for one in here:
            if one.doing.startswith("drifted"):
                self._once(f"worker {one.name} has {one.doing}")

    def _once(self, line: str) -> None:
        if line not in self._said:
            self._said.add(line)
            self._say(line)


class _Poison(Exception):
    """The candidate ended one judge after the other."""
