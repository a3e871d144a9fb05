"""A worker: takes work from the database, has it judged on its device, and records the answers."""

from __future__ import annotations

import json
import secrets
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from kb.errors import KbError, ToolchainError
from search.judged import Device
from search.judging.known_kernels import Calibration
from search.judging.spool.job import Job, JobAnswer
from search.judging.spool.judge_main import LocalDevice, mismatch
from search.judging.spool.judge_process import Died, Stopped
from search.work.calibration import Calibrations, Drifted
from search.work.queue import UNREADABLE, Claimant, Lease, WorkQueue
from search.work.roster import Roster

_IDLE = (0.02, 1.0)  # seconds between looks for work, just after some and at last
_CHECK = 30.0  # seconds after which a calibration is looked at again before work is taken
_DRIFT_PAUSE = 5.0
_TARGETS = 10.0  # seconds between looks for work on other targets, while there is work
_LOOKS = 5  # measurements of the known kernels before a device counts as drifted
_IN_A_ROW = 20  # pieces of work for the judge at hand before others get their turn


class LeaseLost(Stopped):
    """The lease is another worker's: what is being judged is not to be recorded."""


class WarmJudge(Protocol):
    """A judge in a process of its own; `search.judging.spool.judge_process.JudgeProcess` is one."""

    task: str
    context: str
    device: Device | Literal[""]
    facts: Mapping[str, Any]

    def open(self) -> None:
        """Start it, and learn which device it judges on."""
        ...

    def ask(self, job: Job) -> JobAnswer:
        """Have a job judged."""
        ...

    def calibrate(self) -> Calibration:
        """Run the known kernels on its device."""
        ...

    def close(self) -> None:
        """End the process."""
        ...


@dataclass(kw_only=True)
class WorkerTally:
    """What a worker has done since it began."""

    recorded: int = 0
    failed: int = 0
    given_back: int = 0
    lost: int = 0
    drifted: int = 0
    kinds: dict[str, int] = field(default_factory=dict)


class JudgingWorker:
    """Serves one database with one judge on one device.

    Args:
        make_judge: makes the judge; it calls what it is given while it works.
        calibrations: None: times are not to be compared with another worker's, and nothing is checked.
        say: is told what goes on, a line at a time.
        report: is given each answer as a line of plain values.
        recalibrate: what the known kernels take now is what they take on this device.
    """

    def __init__(
        self,
        queue: WorkQueue,
        make_judge: Callable[[Callable[[], None]], WarmJudge],
        calibrations: Calibrations | None,
        *,
        say: Callable[[str], None],
        report: Callable[[Mapping[str, Any]], None],
        recalibrate: bool = False,
    ) -> None:
        self.name = f"{socket.gethostname()}-{secrets.token_hex(4)}"
        self.tally = WorkerTally()
        self._queue = queue
        self._judge = make_judge(self._tick)
        self._calibrations = calibrations
        self._roster = Roster(queue.engine, silence=2 * queue.lease)
        self._say = say
        self._report = report
        self._recalibrate = recalibrate
        self._every = queue.lease / 4
        self._context = ""
        self._fits: dict[str, bool] = {}  # target's hash: this device is one
        self._lease: Lease | None = None
        self._doing = ""
        self._last = -float("inf")  # sign of life
        self._checked = -float("inf")
        self._looked = -float("inf")  # for targets that it does not know
        self._worked = -float("inf")  # it had something to do
        self._in_a_row = 0
        self._pause = _IDLE[0]
        self._stopping = False

    def stop(self) -> None:
        """Have `run` return soon; the work at hand is given back."""
        self._stopping = True

    def run(self, *, once: bool = False) -> WorkerTally:
        """Take work until told to stop.

        Args:
            once: return when nothing is left that this worker may take.

        Raises:
            ToolchainError: torch or the device is missing, or it has drifted and `once` is set.
            StoreError: the database cannot be written, or was away for too long.
        """
        try:
            self._judge.open()
            while not self._stopping:
                if self._steady(once=once) and not self._take() and once:
                    break
        except Died as error:
            raise ToolchainError(
                f"expected a device that runs known kernels, found that they end the judge ({error}): "
                "look at the device with kb doctor"
            ) from error
        except Stopped:
            pass
        finally:
            self._judge.close()
            self._roster.leave(self.name)
        return self.tally

    def _take(self) -> bool:
        """Claim a piece of work and do it; False where there was none."""
        self._beat()
        self._look_at_targets()
        lease = self._queue.claim(
            Claimant(
                name=self.name,
                context=self._context,
                targets=[target for target, fits in self._fits.items() if fits],
                warm=self._judge.task,
                yields=self._in_a_row >= _IN_A_ROW,
                idle=time.monotonic() - self._worked > self._queue.patience,
            )
        )
        if lease is None:
            self._looked = -float("inf")
            time.sleep(self._pause)
            self._pause = min(1.2 * self._pause, _IDLE[1])
            return False
        self._pause, self._worked = _IDLE[0], time.monotonic()
        self._in_a_row = self._in_a_row + 1 if lease.job.bench == self._judge.task else 0
        self._serve(lease)
        return True

    def _serve(self, lease: Lease) -> None:
        began = time.monotonic()
        self._lease, self._doing = lease, lease.job.name
        self._last = began
        try:
            answer = self._judge.ask(lease.job)
            # Whatever was timed counts only if the device was as fast after it as before.
            if _is_timed(answer) and not self._steady(now=True):
                self._give_back(lease, "")
                return
        except Died as error:
            self._give_back(lease, str(error))
            return
        except LeaseLost:
            self.tally.lost += 1
            self._say(f"{lease.job.name}: its lease ran out, another worker has it")
            return
        except (Stopped, KbError):
            self._give_back(lease, "")
            raise
        finally:
            self._lease, self._doing = None, ""
        self._worked = time.monotonic()
        self._finish(lease, replace(answer, context=self._context), time.monotonic() - began)

    def _finish(self, lease: Lease, answer: JobAnswer, seconds: float) -> None:
        if not self._queue.finish(lease, answer):
            self.tally.lost += 1
            self._say(f"{lease.job.name}: its lease ran out, the answer is dropped")
            return
        kind = answer.kind
        self.tally.recorded += answer.failure is None
        self.tally.failed += answer.failure is not None
        self.tally.kinds[kind] = self.tally.kinds.get(kind, 0) + 1
        reason = "" if answer.failure is None else answer.failure.reason
        self._report(
            {"job": lease.job.name, "kind": kind, "detail": reason, "seconds": round(seconds, 3)}
        )

    def _give_back(self, lease: Lease, died: str) -> None:
        if died:
            self._say(f"{lease.job.name}: {died}")
        self.tally.given_back += self._queue.give_back(lease, died=died)

    def _steady(self, *, once: bool = False, now: bool = False) -> bool:
        """Return whether the device is as fast as it was, and which group it belongs to is known.

        Raises:
            ToolchainError: it is not, and `once` is set.
        """
        if not now and time.monotonic() - self._checked < _CHECK:
            return True
        base = self._judge.context
        if self._calibrations is None:
            self._context, self._checked = base, float("inf")
            return True
        if self._recalibrate:
            self._calibrations.forget(base, self._place())
            self._recalibrate = False
        try:
            group = self._group(self._calibrations)
        except Drifted as error:
            self.tally.drifted += 1
            self._checked = -float("inf")
            self._doing = f"drifted: {error}"
            line = (
                f"this device is not as it was ({error}): nothing is timed until it is again, or until "
                "`kb worker --recalibrate` takes the times of now as its first ones"
            )
            if once:
                raise ToolchainError(
                    f"{line}; end what else runs here, or kb worker --recalibrate"
                ) from None
            self._say(line)
            if not now:
                self._beat()
                time.sleep(_DRIFT_PAUSE)
            return False
        self._context = f"{base} / group {group}"
        self._checked = time.monotonic()
        self._doing = ""
        return True

    def _group(self, calibrations: Calibrations) -> int:
        """Return the device's group; the first look at it, and one that differs, are long ones.

        Raises:
            Drifted: it differs from its own record, however often it is measured.
        """
        found = self._judge.calibrate()
        for left in reversed(range(_LOOKS)):
            if left == 0 or self._context:
                try:
                    return calibrations.group(
                        self._judge.context, self._place(), found, self._judge.device
                    )
                except Drifted:
                    if left == 0:
                        raise
            found = found.least(self._judge.calibrate())
        raise AssertionError("the last look returns or raises")

    def _place(self) -> str:
        return place_of(self._judge.facts)

    def _look_at_targets(self) -> None:
        if time.monotonic() < self._looked + _TARGETS:
            return
        self._looked = time.monotonic()
        for target, job in self._queue.targets(list(self._fits)).items():
            self._fits[target] = self._is_one(job)

    def _is_one(self, job: Job | None) -> bool:
        if job is None:
            self._say(f"work for one target is left: {UNREADABLE}")
            return False
        if job.device != self._judge.device:
            return False
        here = LocalDevice(
            device=job.device,
            name=str(self._judge.facts.get("device", "")),
            context=self._judge.context,
            facts=dict(self._judge.facts),
        )
        wrong = mismatch(job.target, here)
        if wrong is not None:
            self._say(f"work for {job.target.name} is left: {wrong}")
        return wrong is None

    def _tick(self) -> None:
        """Give signs of life from the loop that waits for the judge: no thread that outlives it."""
        if self._stopping:
            raise Stopped
        self._beat()

    def _beat(self) -> None:
        now = time.monotonic()
        if now - self._last < self._every:
            return
        self._last = now
        facts = {**self._judge.facts, "worker": self.name, "recorded": self.tally.recorded}
        self._roster.beat(self.name, self._context or self._judge.context, facts, self._doing)
        if self._lease is not None and not self._queue.renew(self._lease):
            raise LeaseLost


def place_of(facts: Mapping[str, Any]) -> str:
    """Return the name of a device as calibrations know it: its host, and which one it is there."""
    return json.dumps([facts.get("host"), facts.get("device"), facts.get("unit", "")])


def _is_timed(answer: JobAnswer) -> bool:
    if answer.failure is not None:
        return False
    return answer.outcome is None or answer.outcome.kind == "passed"
