"""What is asked of a judge elsewhere, and what it answers."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kb import errors
from kb.errors import KbError, ToolchainError
from search.judged import (
    Device,
    JudgedTarget,
    JudgedTask,
    plain_target,
    plain_task,
    read_target,
    read_task,
    write_task,
)
from search.judging.limits import Prepared, limits_of
from search.outcome import Outcome, from_json, to_json
from search.sandbox.sandbox import SandboxPart

if TYPE_CHECKING:
    from kb.records.schema import TargetRecord
    from search.task import Task

NOWHERE = Path("reference.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One thing to judge.

    Attributes:
        source: the candidate; None asks only what there is to know before the first one.
        expected: `JobAnswer.context` of the judge that must answer; empty: whichever has the device.
        limits: what differs from the judge's own `search.judging.limits.Limits`.
        created: when and where it was written, for people: no decision hangs on a clock.
    """

    task: JudgedTask
    target: JudgedTarget
    device: Device
    seed: int
    source: str | None = None
    thorough: bool = False
    expected: str = ""
    limits: Mapping[str, float | bool] = field(default_factory=dict)
    created: str = ""

    @property
    def name(self) -> str:
        """The job's name: what is asked, and the hash of all that the answer depends on."""
        what = "prepare" if self.source is None else "confirm" if self.thorough else "judge"
        body = self.body()
        del body["created"]
        return f"{what}-{hashlib.sha256(canonical(body).encode()).hexdigest()[:32]}"

    @property
    def bench(self) -> str:
        """Hash of what one judge is made for: jobs that share it are answered by the same judge."""
        body = self.body()
        kept = {key: body[key] for key in ("task", "target", "device", "seed", "limits")}
        return hashlib.sha256(canonical(kept).encode()).hexdigest()[:16]

    def body(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "task": write_task(self.task),
            "target": asdict(self.target),
            "device": self.device,
            "seed": self.seed,
            "source": self.source,
            "thorough": self.thorough,
            "expected": self.expected,
            "limits": dict(self.limits),
            "created": self.created,
        }


def read_job(body: Mapping[str, Any], reference: Path = NOWHERE) -> Job:
    """Return the job that `Job.body` wrote.

    Raises:
        TypeError, KeyError: another version wrote it.
    """
    rest = dict(body)
    task, target = read_task(rest.pop("task"), reference), read_target(rest.pop("target"))
    return Job(**rest, task=task, target=target)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What a judge elsewhere is made for: all of a job but the candidate.

    Attributes:
        seed: of parameters' and inputs' draws.
        limits: what differs from the judge's own `search.judging.limits.Limits`.
    """

    task: JudgedTask
    target: JudgedTarget
    device: Device
    seed: int
    limits: Mapping[str, float | bool] = field(default_factory=dict)

    def job(self, source: str | None, *, thorough: bool = False, expected: str = "") -> Job:
        """Return the job that asks for the outcome of `source`; None asks for the preparation.

        A thorough one has another seed: it is for another judge there, a process with secrets of its own.
        """
        return Job(
            task=self.task,
            target=self.target,
            device=self.device,
            seed=self.seed + thorough,
            source=source,
            thorough=thorough,
            expected=expected,
            limits=self.limits,
            created=f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {socket.gethostname()}-{os.getpid()}",
        )


def assign(task: Task, target: TargetRecord) -> Assignment:
    """Return what a judge elsewhere is made for by a task.

    Raises:
        ToolchainError: no judge exists for the target.
    """
    return Assignment(
        task=plain_task(task),
        target=plain_target(target),
        device=device_of(target),
        seed=task.settings.search.seed,
        limits=limits_of(task),
    )


def device_of(target: TargetRecord) -> Device:
    """Return the device that a judge for `target` needs.

    Raises:
        ToolchainError: no judge exists for it.
    """
    if target.device == "cpu":
        return "cpu"
    if target.vendor == "nvidia":
        return "cuda"
    raise ToolchainError(
        f"kb judges on processors and on NVIDIA GPUs, {target.name} is neither: name another target"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a job has no outcome: it lies with the task or the machine, not with the candidate.

    Attributes:
        kind: the name of a class of `kb.errors`, or of what ended the judge.
    """

    kind: str
    reason: str


def as_error(failure: Failure, message: str | None = None) -> KbError:
    """Return a failure as the error that it was on the other side, where it names one."""
    kind = getattr(errors, failure.kind, None) if isinstance(failure.kind, str) else None
    if not (isinstance(kind, type) and issubclass(kind, KbError)):
        kind = ToolchainError
    return kind(message or failure.reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAnswer:
    """What became of a job: an outcome, what was prepared, or a failure.

    Attributes:
        job: the job's name.
        context: judge version, device and torch: outcomes of one context can be compared.
        facts: of the machine that answered, for people.
    """

    job: str
    context: str
    facts: Mapping[str, Any]
    outcome: Outcome | None = None
    prepared: Prepared | None = None
    failure: Failure | None = None

    @property
    def kind(self) -> str:
        """Its outcome's kind, ``prepared``, or ``failed``."""
        if self.failure is not None:
            return "failed"
        return "prepared" if self.outcome is None else self.outcome.kind

    def body(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "job": self.job,
            "context": self.context,
            "facts": dict(self.facts),
            "outcome": None if self.outcome is None else json.loads(to_json(self.outcome)),
            "prepared": None if self.prepared is None else write_prepared(self.prepared),
            "failure": None if self.failure is None else asdict(self.failure),
        }


def read_answer(body: Mapping[str, Any]) -> JobAnswer:
    """Return the answer that `JobAnswer.body` wrote.

    Raises:
        TypeError, KeyError: another version wrote it.
    """
    outcome, prepared, failure = body["outcome"], body["prepared"], body["failure"]
    return JobAnswer(
        job=body["job"],
        context=body["context"],
        facts=body["facts"],
        outcome=None if outcome is None else from_json(json.dumps(outcome)),
        prepared=None if prepared is None else read_prepared(prepared),
        failure=None if failure is None else Failure(**failure),
    )


def write_prepared(prepared: Prepared) -> dict[str, Any]:
    """Return what was prepared as JSON values, without the graph, which the asking side has."""
    return {
        "baselines": dict(prepared.baselines),
        "compile_error": prepared.compile_error,
        "dropped": [list(pair) for pair in prepared.dropped],
        "sandbox": [asdict(part) for part in prepared.sandbox],
        "notes": list(prepared.notes),
    }


def read_prepared(values: Mapping[str, Any]) -> Prepared:
    """Return what `write_prepared` wrote."""
    return Prepared(
        baselines=values["baselines"],
        compile_error=values["compile_error"],
        dropped=tuple((name, reason) for name, reason in values["dropped"]),
        sandbox=tuple(SandboxPart(**part) for part in values["sandbox"]),
        graph=None,
        work=None,
        notes=tuple(values["notes"]),
    )


def canonical(body: Mapping[str, Any]) -> str:
    """Return `body` as the one text that its hash is taken of."""
    return json.dumps(body, sort_keys=True, separators=(",", ":"))
