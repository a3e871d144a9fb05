"""Examines candidates for absent devices: compiles them for each, and checks their answers once."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from kb.errors import TaskError
from search.judging.checks import told
from search.judging.dryrun.architecture import Architecture
from search.judging.dryrun.assembler import Assembler, triton_folder
from search.judging.dryrun.compilation import Built, Compilation
from search.judging.dryrun.nvcc import NativeBuilds
from search.judging.dryrun.session import Answers, DryCandidateSession, Unchecked
from search.judging.dryrun.small_shapes import Variant, own_shapes, variants
from search.judging.limits import Limits
from search.judging.tolerance import make_trials
from search.judging.trial import TrialSet
from search.languages.cute import MISSING, imports_cute, is_installed, kernel_names
from search.outcome import BuildFailed
from search.reference import Problem
from search.sandbox.faults import Fault, forged, raised
from search.sandbox.fork_server import DRY
from search.sandbox.runner import encode
from search.sandbox.runner_handle import Worker
from search.sandbox.sandbox import Cell, SandboxPart, missing_parts, sweep
from search.sandbox.shared_memory import Arena, plan
from search.sandbox.zygote import Zygote

_FILE = 64 << 20  # bytes of assembly or intermediate code that one file may have
_SAMPLING = 1.0  # seconds in which a few programs of each launch are looked at
_QUICK = ("task", "normal", "large mean")  # distributions of a quick check


@dataclass(frozen=True, slots=True, kw_only=True)
class DryPrepared:
    """What is known before the first candidate."""

    sandbox: tuple[SandboxPart, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DryFinding:
    """What was seen of a candidate: by architecture what it compiles to, and whether it is right."""

    built: Mapping[str, Built | Fault]
    answers: Answers | Fault


class _Questions:
    """What a candidate is asked on one variant of the task."""

    def __init__(self, variant: Variant, seed: int) -> None:
        self.variant = variant
        self.trial_set = make_trials(variant.problem, seed)
        small = variant.problem
        self.layout = plan(small.inputs, small.state, small.outputs)
        self.arena = Arena.create(self.layout)

    def chosen(self, *, thorough: bool) -> TrialSet:
        """Return all trials, or a few."""
        if thorough:
            return self.trial_set
        trials = self.trial_set.trials
        quick = tuple(one for one in trials if one.distribution in _QUICK)
        return replace(self.trial_set, trials=quick[:4] or trials[:2])


class DryCheck:
    """Examines candidates of one task.

    Args:
        problem: the reference.
        seed: of the inputs that answers are checked on.
        folder: for what is being assembled.
        zygote: the warm process, where several desks share one; its owner closes it.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        seed: int,
        folder: Path,
        limits: Limits,
        zygote: Zygote | None = None,
    ) -> None:
        self._problem = problem
        self._seed = seed
        self._folder = folder
        self._limits = limits
        self._shared = zygote is not None
        self._zygote = zygote or Zygote(DRY)
        self._assembler = Assembler(self._zygote, folder / "assembly", limits.build_seconds)
        self._native = NativeBuilds(self._zygote, folder / "native", limits.build_seconds)
        self._small: _Questions | None = None
        # For candidates that take no smaller shapes; found when the first one asks.
        self._own: _Questions | None = None
        self._own_sought = False
        self._missing = "no smaller shapes of the task were found that the reference runs on"

    def prepare(self, progress: Callable[[str], None]) -> DryPrepared:
        """Find shapes to check answers on, and start what confines candidates.

        Raises:
            ToolchainError: Triton is missing, or candidates cannot be confined.
        """
        triton_folder()
        progress("smaller shapes for the interpreter")
        self._choose_variant()
        progress("Triton's compilers")
        self._folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="dry-", dir=self._folder) as scratch:
            worker = self._worker(Path(scratch))
            worker.close()
        notes = missing_parts(worker.sandbox)
        if self._small is None:
            notes.append(f"answers are not checked: {self._missing}")
        if self._problem.task.settings.library == "forbidden":
            notes.append("library: forbidden cannot be seen in a dry run: it takes a profile")
        return DryPrepared(sandbox=worker.sandbox, notes=tuple(notes))

    def _choose_variant(self) -> None:
        # The task's own shapes are looked at where no smaller ones go together.
        own = map(own_shapes, [self._problem])
        for variant in filter(None, chain(variants(self._problem), own)):
            try:
                self._small = _Questions(variant, self._seed)
            except TaskError as error:
                self._missing = str(error)
                continue
            return

    def _worker(self, scratch: Path, questions: _Questions | None = None) -> Worker:
        arena = questions.arena if questions is not None else Arena.create(plan((), {}, ()))
        cell = Cell(
            single=True,
            readable=(),
            writable=(str(scratch),),
            memory=self._limits.memory,
            cpu_seconds=3600,
            file_bytes=_FILE,
        )
        worker = Worker(self._zygote, arena, cell, None, {"device": "dry", "environment": {}})
        try:
            worker.ready()
        except BaseException:
            worker.close()
            raise
        return worker

    def examine(
        self, source: str, architectures: Sequence[Architecture], *, thorough: bool = False
    ) -> DryFinding:
        """Compile a candidate for each architecture and check its answers.

        Args:
            thorough: check them on every distribution of inputs.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix="dry-", dir=self._folder))
        workers: list[Worker] = []
        try:
            # Two compile side by side; the first one's answers are checked as well.
            for _ in range(min(2, len(architectures))):
                workers.append(self._worker(scratch, self._small))
            return self._examine(workers, scratch, source, architectures, thorough)
        except Fault as fault:
            return DryFinding(built={a.name: fault for a in architectures}, answers=fault)
        finally:
            for worker in workers:
                worker.close()
            sweep(scratch)

    def _examine(
        self,
        workers: Sequence[Worker],
        scratch: Path,
        source: str,
        architectures: Sequence[Architecture],
        thorough: bool,
    ) -> DryFinding:
        if imports_cute(source) and not is_installed():
            raise Fault(BuildFailed(reason=MISSING))
        self._open(workers, scratch, source, architectures[0])
        parts = self._native if self._native.needed(source) else None
        compilation = Compilation(
            self._assembler,
            scratch,
            lambda a: parts.build(source, a) if parts else (),
            kernel_names(source) if imports_cute(source) else (),
        )
        cut = len(architectures) // len(workers)
        shares = (architectures[:cut], architectures[cut:])
        try:
            for number, (worker, share) in enumerate(zip(workers, shares, strict=False)):
                self._tell_compile(worker, share, 0.0 if number else _SAMPLING)
            alive = self._take(workers[0], shares[0], compilation)
            answers: Answers | Fault = Answers(unchecked="it does not compile")
            if compilation.crash is not None:
                answers = compilation.crash
            elif not compilation.hopeless and alive is None:
                answers = self._answers(
                    workers[0], scratch, source, architectures, compilation, thorough
                )
            for worker, share in zip(workers[1:], shares[1:], strict=False):
                self._take(worker, share, compilation)
            self._adapt(workers[0], architectures, compilation)
            built = compilation.finish()
            if alive is not None:
                answers = alive
            return DryFinding(built={a.name: built[a.name] for a in architectures}, answers=answers)
        finally:
            compilation.close()

    def _open(
        self,
        workers: Sequence[Worker],
        scratch: Path,
        source: str,
        architecture: Architecture,
    ) -> None:
        for worker in workers:
            worker.tell(
                {
                    "op": "open",
                    "source": source,
                    "folder": str(scratch),
                    "device": architecture.values(),
                }
            )
        for worker in workers:
            answer = worker.answer(self._limits.start_seconds)
            if "raised" in answer:
                raise Fault(raised(told(answer), "importing it"))
            if "missing" in answer:
                raise Fault(
                    BuildFailed(reason="it defines no ModelNew: define class ModelNew(nn.Module)")
                )

    def _tell_compile(
        self, worker: Worker, share: Sequence[Architecture], sample_seconds: float
    ) -> None:
        worker.tell(
            {
                "op": "compile",
                "devices": [architecture.values() for architecture in share],
                "init": encode(list(self._problem.init_inputs)),
                "inputs": plan(self._problem.inputs, {}, ())["inputs"],
                "sample_seconds": sample_seconds,
            }
        )

    def _take(
        self, worker: Worker, share: Sequence[Architecture], compilation: Compilation
    ) -> Fault | None:
        """Take what a process has compiled; return what ended it, None where it lives."""
        try:
            answer = worker.answer(self._limits.build_seconds * len(share) + _SAMPLING)
        except Fault as fault:
            for architecture in share:
                compilation.fail(architecture, fault)
            return fault
        given = answer.get("answers")
        if not isinstance(given, list) or len(given) != len(share):
            raise forged("not one answer an architecture")
        for architecture, each in zip(share, given, strict=True):
            compilation.add(architecture, each if isinstance(each, dict) else {})
        return None

    def _answers(
        self,
        worker: Worker,
        scratch: Path,
        source: str,
        architectures: Sequence[Architecture],
        compilation: Compilation,
        thorough: bool,
    ) -> Answers | Fault:
        if self._small is None:
            return Answers(unchecked=self._missing)
        session = self._session(worker, self._small, source, thorough)
        try:
            session.aim(architectures[0])
            session.load({}, self._small.layout)
            if compilation.pending(architectures):
                self._adapt(worker, architectures, compilation)
                session.aim(architectures[0])
            answers = session.answers()
        except Unchecked as reason:
            answers = reason.answers()
        except Fault as fault:
            return fault
        if answers.bound and (questions := self._own_shapes()) is not None:
            return self._answers_there(questions, scratch, source, architectures[0], thorough)
        return answers

    def _own_shapes(self) -> _Questions | None:
        """Return the task's own shapes, None where they are too large or asked about already."""
        if self._own_sought or self._small is None:
            return self._own
        self._own_sought = True
        if self._small.variant.changed:
            variant = own_shapes(self._problem)
            with suppress(TaskError):
                self._own = _Questions(variant, self._seed) if variant is not None else None
        return self._own

    def _answers_there(
        self,
        questions: _Questions,
        scratch: Path,
        source: str,
        architecture: Architecture,
        thorough: bool,
    ) -> Answers | Fault:
        """Return what is known of a candidate's answers on the task's own shapes."""
        worker = self._worker(scratch, questions)
        session = self._session(worker, questions, source, thorough)
        try:
            self._open([worker], scratch, source, architecture)
            session.aim(architecture)
            session.load({}, questions.layout)
            return session.answers()
        except Unchecked as reason:
            return reason.answers()
        except Fault as fault:
            return fault
        finally:
            worker.close()

    def _session(
        self, worker: Worker, questions: _Questions, source: str, thorough: bool
    ) -> DryCandidateSession:
        return DryCandidateSession(
            questions.variant,
            questions.chosen(thorough=thorough),
            questions.arena,
            worker,
            self._limits,
            source=source,
        )

    def _adapt(
        self, worker: Worker, architectures: Sequence[Architecture], compilation: Compilation
    ) -> None:
        """Compile for the small shapes where calling it on tensors without memory failed."""
        if self._small is None or not worker.alive():
            return
        for architecture in compilation.pending(architectures):
            message = {"op": "adapt", "device": architecture.values()}
            try:
                answer = worker.ask(message, self._limits.build_seconds)
            except Fault:
                return  # what it raised before stands
            compilation.add_small(architecture, answer)

    def close(self) -> None:
        """End every process that it started."""
        if not self._shared:
            self._zygote.close()
