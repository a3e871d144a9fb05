"""The loop on the machine with the device: take a job, have it judged, write the answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from kb.errors import KbError
from search.judging.spool.folder import (
    Folder,
    JobFile,
    Leases,
    Unreadable,
    birthplace,
    entries,
    owner_name,
    read_plain,
    unseal,
)
from search.judging.spool.job import Failure, Job, JobAnswer, read_job
from search.judging.spool.judge_process import Died, JudgeProcess, Stopped
from search.outcome import Outcome, Passed

LEASE = 60.0  # seconds that a judge may be silent before its job is taken from it
_IDLE = (0.02, 0.5)  # seconds between looks at the folder, just after a job and at last
_MOST_DEATHS = 3  # judges that a job may take with it
_IN_A_ROW = 20  # jobs of the task that is loaded before those of another get their turn


@dataclass(kw_only=True)
class ServedTally:
    """What a judge has done since it began."""

    judged: int = 0
    failed: int = 0
    kinds: dict[str, int] = field(default_factory=dict)


class SpoolServer:
    """Serves a spool folder with one judge.

    Args:
        bench: makes the judge; it calls what it is given while it works.
        say: is told what goes on, a line at a time.
        report: is given each answer as a line of plain values.
        lease: seconds after which a silent judge's job is taken from it.
    """

    def __init__(
        self,
        folder: Folder,
        bench: Callable[[Callable[[], None]], JudgeProcess],
        *,
        say: Callable[[str], None],
        report: Callable[[Mapping[str, Any]], None],
        lease: float = LEASE,
    ) -> None:
        self._folder = folder
        self._bench = bench(self._tick)
        self._say = say
        self._report = report
        self._owner = owner_name()
        self._leases = Leases(folder, lease)
        self._every = lease / 6
        self._count = 0
        self._last = -float("inf")
        self._doing = ""
        self._said: set[str] = set()
        self._in_a_row = 0
        self._pause = _IDLE[0]
        self._stopping = False
        self.tally = ServedTally()

    def stop(self) -> None:
        """Have `run` return soon; the job at hand is given back."""
        self._stopping = True

    def run(self, *, once: bool) -> ServedTally:
        """Serve until told to stop.

        Args:
            once: return when nothing is left that this judge may take.

        Raises:
            ToolchainError: torch or the device is missing.
            StoreError: the folder cannot be written.
        """
        self._folder.make()
        try:
            self._bench.open()
            self._say(
                f"judging {self._folder.root} on {self._bench.facts['device']} ({self._owner})"
            )
            while not self._stopping:
                self._beat()
                self._reclaim()
                found = self._next()
                if found is not None:
                    self._serve(*found)
                    self._pause = _IDLE[0]
                elif once:
                    break
                else:
                    self._rest()
        except Stopped:
            pass
        finally:
            self._bench.close()
            self._folder.leave(self._owner)
        return self.tally

    def _rest(self) -> None:
        time.sleep(self._pause)
        self._pause = min(1.1 * self._pause, _IDLE[1])

    def _tick(self) -> None:
        if self._stopping:
            raise Stopped
        self._beat()

    def _beat(self) -> None:
        now = time.monotonic()
        if now - self._last < self._every:
            return
        self._last = now
        self._count += 1
        body = {
            "beat": self._count,
            "pid": int(self._owner.rsplit("-", 2)[1]),
            "birthplace": birthplace(),
            "context": self._bench.context,
            "device": self._bench.device,
            "facts": dict(self._bench.facts),
            "doing": self._doing,
            **asdict(self.tally),
        }
        self._folder.beat(self._owner, body)

    def _reclaim(self) -> None:
        for claim in self._leases.stale(self._owner):
            if self._folder.give_back(claim, died=True):
                self._say(f"{claim.job}: its judge {claim.owner} is gone, it waits again")
            self._folder.leave(claim.owner)

    def _next(self) -> tuple[JobFile, Job] | None:
        """Claim a job: of the task at hand first, where others do not wait for too long."""
        ready = [(entry, job) for entry in entries(self._folder.jobs) if (job := self._fit(entry))]
        if self._in_a_row < _IN_A_ROW:
            ready.sort(key=lambda pair: pair[1].bench != self._bench.task)
        else:
            ready.sort(key=lambda pair: pair[1].bench == self._bench.task)
        for entry, job in ready:
            claim = self._folder.claim(entry, self._owner)
            if claim is not None:
                self._in_a_row = self._in_a_row + 1 if job.bench == self._bench.task else 0
                return claim, job
        return None

    def _fit(self, entry: JobFile) -> Job | None:
        """Return the job of a file where this judge may take it."""
        try:
            if self._answered(entry.job):
                entry.path.unlink(missing_ok=True)
                return None
            job = _read(entry)
        except Unreadable as error:
            self._once(f"jobs/{entry.path.name}: {error}: left until it is whole")
        except FileNotFoundError:
            pass  # another judge was faster
        except OSError as error:
            self._once(f"jobs/{entry.path.name}: cannot be read ({error.strerror}): left")
        except (TypeError, KeyError, ValueError, AttributeError) as error:
            self._refuse(
                entry, f"another version of kb wrote it ({error!r}): install the same here"
            )
        else:
            return job if self._suits(job) else None
        return None

    def _suits(self, job: Job) -> bool:
        here = self._bench
        if job.device != here.device:
            self._once(f"{job.name}: left, it is for a judge on {job.device}")
            return False
        if job.expected not in ("", here.context):
            self._once(
                f"{job.name}: left, its run began with {job.expected}, this is {here.context}"
            )
            return False
        return True

    def _answered(self, job: str) -> bool:
        try:
            unseal(read_plain(self._folder.outcome(job)), "outcome")
        except FileNotFoundError:
            return False
        except Unreadable as error:
            self._once(f"outcomes/{job}.json: {error}: judged again")
            return False
        return True

    def _once(self, line: str) -> None:
        if line not in self._said:
            self._said.add(line)
            self._say(line)

    def _refuse(self, entry: JobFile, reason: str) -> None:
        claim = self._folder.claim(entry, self._owner)
        if claim is not None:
            self._finish(claim, self._failure(claim.job, "TaskError", reason))

    def _serve(self, claim: JobFile, job: Job) -> None:
        self._doing = claim.job
        self._last = -float("inf")
        began = time.monotonic()
        try:
            if claim.tries >= _MOST_DEATHS:
                answer = self._failure(
                    claim.job,
                    "ToolchainError",
                    f"{claim.tries} judges ended while they judged it: it is not tried again",
                )
            else:
                self._beat()
                answer = self._bench.ask(job)
        except Died as error:
            final = self._after_death(claim, str(error))
            if final is None:
                return
            answer = final
        except (Stopped, KbError):
            self._folder.give_back(claim, died=False)
            raise
        finally:
            self._doing = ""
        self._finish(claim, answer, time.monotonic() - began)

    def _after_death(self, claim: JobFile, reason: str) -> JobAnswer | None:
        """Return the failure of a job that has taken its last judge; None where it waits again."""
        if claim.tries + 1 >= _MOST_DEATHS:
            return self._failure(claim.job, "ToolchainError", reason)
        self._say(f"{claim.job}: {reason}; tried again")
        self._folder.give_back(claim, died=True)
        return None

    def _failure(self, job: str, kind: str, reason: str) -> JobAnswer:
        return JobAnswer(
            job=job,
            context=self._bench.context,
            facts=self._bench.facts,
            failure=Failure(kind=kind, reason=reason),
        )

    def _finish(self, claim: JobFile, answer: JobAnswer, seconds: float = 0.0) -> None:
        self._folder.answer(claim, answer.body())
        kind = answer.kind
        self.tally.judged += answer.failure is None
        self.tally.failed += answer.failure is not None
        self.tally.kinds[kind] = self.tally.kinds.get(kind, 0) + 1
        line = {
            "job": claim.job,
            "kind": kind,
            "detail": _detail(answer),
            "seconds": round(seconds, 3),
        }
        self._report(line)


def _read(entry: JobFile) -> Job:
    job = read_job(unseal(read_plain(entry.path), "job"))
    if job.name != entry.job:
        raise Unreadable(f"it holds {job.name}, another job than its name says")
    return job


def _detail(answer: JobAnswer) -> str:
    if answer.failure is not None:
        return answer.failure.reason
    if answer.prepared is not None:
        times = answer.prepared.baselines.items()
        return ", ".join(f"{name} {1e3 * seconds:.3g} ms" for name, seconds in times)
    return "" if answer.outcome is None else _fate(answer.outcome)


def _fate(outcome: Outcome) -> str:
    if isinstance(outcome, Passed):
        gains = (f"{ratio.ratio:.2f}x over {name}" for name, ratio in outcome.speedup.items())
        return ", ".join((f"{1e3 * outcome.seconds:.3g} ms", *gains))
    return str(getattr(outcome, "reason", ""))
