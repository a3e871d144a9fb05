"""The judge of a driver whose candidates are judged by workers of the same database."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping

from kb.errors import ToolchainError
from kb.records.schema import TargetRecord
from search.judging.limits import Prepared
from search.judging.spool.client import device_of
from search.judging.spool.job import Failure, Job, JobAnswer, as_error
from search.judging.spool.wire_types import plain_target, plain_task
from search.outcome import Crashed, Outcome
from search.task import Task
from search.work.queue import WorkQueue
from search.work.roster import Roster

_LOOK = (0.02, 1.0)  # seconds between looks at the database, at first and at last
_PATIENCE = 20.0  # seconds before it looks around which workers there are


class QueuedJudge:
    """Puts candidates into the database, and waits for what workers record.

    All answers of one run come from workers of one context: judge version, device model, torch and
    group of calibrations. What is on record already is taken from there.

    Args:
        seed: of parameters' and inputs' draws.
        limits: what differs from the judge's own limits.
        say: is told what the user should know while it waits.
    """

    def __init__(
        self,
        queue: WorkQueue,
        task: Task,
        target: TargetRecord,
        *,
        seed: int,
        limits: Mapping[str, float | bool] | None = None,
        say: Callable[[str], None],
    ) -> None:
        self._queue = queue
        self._roster = Roster(queue.engine, silence=2 * queue.lease)
        self._task = plain_task(task)
        self._target = plain_target(target)
        self._device = device_of(target)
        self._seed = seed
        self._limits = dict(limits or {})
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
            progress(f"waiting for a worker on {self._device}")
            answer = self._ask(self._job(None))
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
            answer = self._ask(self._job(source, thorough=thorough))
        except _Poison as found:
            return Crashed(reason=str(found))
        assert answer.outcome is not None
        return answer.outcome

    def expect(self, source: str, *, thorough: bool = False) -> None:
        """Put `source` there without waiting, so that several workers have something to do."""
        self.prepare()
        self._put(self._job(source, thorough=thorough))

    def close(self) -> None:
        """Leave everything as it is: what was asked may still be answered."""

    def _job(self, source: str | None, *, thorough: bool = False) -> Job:
        return Job(
            task=self._task,
            target=self._target,
            device=self._device,
            seed=self._seed
            + thorough,  # the best are looked at by another judge, with other inputs
            source=source,
            thorough=thorough,
            expected="" if source is None else self.context,
            limits=self._limits,
            created=socket.gethostname(),
        )

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
