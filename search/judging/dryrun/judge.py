"""Turns a source into an outcome for a GPU that is not here."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from kb.records.schema import TargetRecord
from search.costs.work import traced_work
from search.judging.dryrun.architecture import Architecture, architecture_of
from search.judging.dryrun.check import DryCheck, DryFinding
from search.judging.limits import Limits, Prepared
from search.outcome import Checked, Outcome
from search.reference import Problem
from search.sandbox.faults import Fault, charged
from search.sandbox.zygote import Zygote

# Part of an outcome's identity: raise it when the same source may be judged otherwise.
DRY_VERSION = "dry-9"


class DryJudge:
    """Judges candidates for one task without the device that they are for.

    Args:
        problem: the reference.
        target: the record of the device.
        seed: of parameters' and inputs' draws.
        folder: for what is being assembled; it may be shared by runs.
        limits: what a candidate may use.
        zygote: the warm process, where several judges share one; its owner closes it.
    """

    def __init__(
        self,
        problem: Problem,
        target: TargetRecord,
        *,
        seed: int,
        folder: Path,
        limits: Limits | None = None,
        zygote: Zygote | None = None,
    ) -> None:
        self._problem = problem
        self._architecture: Architecture = architecture_of(target)
        self._target = target
        self._desk = DryCheck(
            problem, seed=seed, folder=folder, limits=limits or Limits(), zygote=zygote
        )
        self.prepared: Prepared | None = None

    def prepare(self, progress: Callable[[str], None] = lambda _: None) -> Prepared:
        """Find shapes that can be checked here, and see that candidates can be confined.

        Raises:
            TaskError: the task cannot be judged here.
            ToolchainError: this machine has no Triton, or cannot confine candidates.
        """
        if self.prepared is not None:
            return self.prepared
        notes = [
            f"nothing was timed: {self._target.name} is not here; candidates are compiled for "
            f"{self._architecture.name} and checked in an interpreter"
        ]
        told = self._desk.prepare(progress)
        progress("the reference's operators")
        graph, work, unknown = traced_work(self._problem)
        self.prepared = Prepared(
            baselines={},
            compile_error=None,
            dropped=(),
            sandbox=told.sandbox,
            graph=graph,
            work=work,
            notes=(*notes, *unknown, *told.notes),
        )
        return self.prepared

    @charged
    def judge(self, source: str, *, thorough: bool = False) -> Outcome:
        """Judge `source`.

        Args:
            source: a Python file that defines ``ModelNew``.
            thorough: check it on every distribution of inputs.
        """
        self.prepare()
        start = time.monotonic()
        finding = self._desk.examine(source, (self._architecture,), thorough=thorough)
        outcome = outcome_of(finding, self._architecture.name)
        return replace(outcome, build_seconds=time.monotonic() - start)

    def close(self) -> None:
        """End every process that it started."""
        self._desk.close()


def outcome_of(finding: DryFinding, architecture: str) -> Outcome:
    """Return what a finding means for one architecture."""
    built = finding.built[architecture]
    if isinstance(built, Fault):
        return built.outcome
    if isinstance(finding.answers, Fault):
        return finding.answers.outcome
    answers = finding.answers
    return Checked(
        kernels=built.kernels,
        max_error=answers.max_error,
        allowed_error=answers.allowed_error,
        unchecked=answers.unchecked,
        notes=(*built.notes, *answers.notes),
    )
