"""Examines candidates for absent devices: compiles them for each, and checks their answers once."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kb.errors import TaskError
from search.dryrun.architecture import Architecture
from search.dryrun.assembler import Assembler, Assembly, triton_folder
from search.dryrun.hearing import Answers, DryHearing
from search.dryrun.native import NativeBuilds, native_kernels
from search.dryrun.shrink import Variant, variants
from search.judging.arena import Arena, plan
from search.judging.problem import Problem
from search.judging.runner import encode
from search.judging.sandbox import Cell, Part
from search.judging.terms import Limits
from search.judging.trials import Bank, make_bank
from search.judging.worker import Fault, Worker, Zygote, forged, raised
from search.judging.zygote import DRY
from search.outcome import BuildFailed, Crashed, Kernel, Refused
from search.profilers.resources import Resources

_FILE = 64 << 20  # bytes of assembly or intermediate code that one file may have
_SAMPLING = 2.0  # seconds in which a few programs of each launch are looked at
_QUICK = ("task", "normal", "large mean")  # distributions of a quick check


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What is known before the first candidate."""

    sandbox: tuple[Part, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """What a candidate launches on one architecture."""

    kernels: tuple[Kernel, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What was seen of a candidate: by architecture what it compiles to, and whether it is right."""

    built: Mapping[str, Built | Fault]
    answers: Answers | Fault


class Desk:
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
        self._small: Variant | None = None
        self._bank: Bank
        self._arena: Arena
        self._layout: dict[str, Any] = {}
        self._missing = "no smaller shapes of the task were found that the reference runs on"

    def prepare(self, progress: Callable[[str], None]) -> Told:
        """Find shapes to check answers on, and start what confines candidates.

        Raises:
            ToolchainError: Triton is missing, or candidates cannot be confined.
        """
        triton_folder()
        progress("smaller shapes for the interpreter")
        self._choose_variant()
        small = self._small.problem if self._small is not None else None
        self._layout = plan(small.inputs, small.state, small.outputs) if small else plan((), {}, ())
        self._arena = Arena.create(self._layout)
        progress("Triton's compilers")
        worker = self._worker(self._folder)
        worker.close()
        notes = [
            f"{part.name}: not available here ({part.detail})"
            for part in worker.sandbox
            if not part.works
        ]
        if self._small is None:
            notes.append(f"answers are not checked: {self._missing}")
        if self._problem.task.settings.library == "forbidden":
            notes.append("library: forbidden cannot be seen in a dry run: it takes a profile")
        return Told(sandbox=worker.sandbox, notes=tuple(notes))

    def _choose_variant(self) -> None:
        for variant in variants(self._problem):
            try:
                self._bank = make_bank(variant.problem, self._seed)
            except TaskError as error:
                self._missing = str(error)
                continue
            self._small = variant
            return

    def _worker(self, scratch: Path) -> Worker:
        self._folder.mkdir(parents=True, exist_ok=True)
        cell = Cell(
            single=True,
            readable=(),
            writable=(str(scratch),),
            memory=self._limits.memory,
            cpu_seconds=3600,
            file_bytes=_FILE,
        )
        return Worker(self._zygote, self._arena, cell, None, {"device": "dry", "environment": {}})

    def examine(
        self, source: str, architectures: Sequence[Architecture], *, thorough: bool = False
    ) -> Finding:
        """Compile a candidate for each architecture and check its answers.

        Args:
            thorough: check them on every distribution of inputs.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix="dry-", dir=self._folder))
        try:
            worker = self._worker(scratch)
            try:
                return self._examine(worker, scratch, source, architectures, thorough)
            finally:
                worker.close()
        except Fault as fault:
            return Finding(built={a.name: fault for a in architectures}, answers=fault)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def _examine(
        self,
        worker: Worker,
        scratch: Path,
        source: str,
        architectures: Sequence[Architecture],
        thorough: bool,
    ) -> Finding:
        self._open(worker, scratch, source, architectures[0])
        parts = self._native if self._native.needed(source) else None
        compilation = _Compilation(
            self._assembler, scratch, lambda a: parts.build(source, a) if parts else ()
        )
        try:
            for number, architecture in enumerate(architectures):
                message = {
                    "op": "compile",
                    "device": architecture.values(),
                    "init": encode(list(self._problem.init_inputs)),
                    "inputs": plan(self._problem.inputs, {}, ())["inputs"],
                    "sample_seconds": 0.0 if number else _SAMPLING,
                }
                answer = worker.ask(message, self._limits.build_seconds + _SAMPLING)
                compilation.add(architecture, answer)
            answers = self._answers(worker, source, architectures, compilation, thorough)
            return Finding(built=compilation.finish(), answers=answers)
        finally:
            compilation.close()

    def _open(self, worker: Worker, scratch: Path, source: str, architecture: Architecture) -> None:
        message = {
            "op": "open",
            "source": source,
            "folder": str(scratch),
            "device": architecture.values(),
        }
        answer = worker.ask(message, self._limits.start_seconds)
        if "raised" in answer:
            raise Fault(raised(_told(answer), "importing it"))
        if "missing" in answer:
            raise Fault(
                BuildFailed(reason="it defines no ModelNew: define class ModelNew(nn.Module)")
            )

    def _answers(
        self,
        worker: Worker,
        source: str,
        architectures: Sequence[Architecture],
        compilation: _Compilation,
        thorough: bool,
    ) -> Answers | Fault:
        if self._small is None:
            compilation.give_up()
            return Answers(unchecked=self._missing)
        if compilation.hopeless:
            return Answers(unchecked="it does not compile")
        bank = self._bank
        if not thorough:
            wanted = dict.fromkeys(_QUICK)
            chosen = [t for t in bank.trials if t.distribution in wanted]
            bank = replace(bank, trials=tuple(chosen[:4]) or bank.trials[:2])
        hearing = DryHearing(self._small, bank, self._arena, worker, self._limits, source=source)
        try:
            hearing.load({}, self._layout)
            for architecture in compilation.pending(architectures):
                answer = worker.ask(
                    {"op": "adapt", "device": architecture.values()}, self._limits.build_seconds
                )
                compilation.add_small(architecture, answer)
            hearing.aim(architectures[0])
            return hearing.answers()
        except Fault as fault:
            compilation.give_up()
            return fault

    def close(self) -> None:
        """End every process that it started."""
        if not self._shared:
            self._zygote.close()


class _Compilation:
    """What a candidate's launches became, architecture by architecture, while assemblers run."""

    def __init__(
        self,
        assembler: Assembler,
        scratch: Path,
        native: Callable[[Architecture], tuple[Resources, ...]],
    ) -> None:
        self._assembler = assembler
        self._native = native
        self._others: dict[str, tuple[Kernel, ...]] = {}
        self._scratch = scratch
        self._running: dict[str, list[Assembly]] = {}
        self._notes: dict[str, tuple[str, ...]] = {}
        self._faults: dict[str, Fault] = {}
        self._waiting: dict[str, Fault] = {}

    @property
    def hopeless(self) -> bool:
        """Whether it compiles for no architecture."""
        return not self._running and not self._waiting

    def add(self, architecture: Architecture, answer: dict[str, Any]) -> None:
        """Take what a process told of the task's own shapes."""
        fault = _fault(answer, architecture)
        if fault is None:
            self._begin(architecture, answer, "")
        elif fault[0]:
            self._faults[architecture.name] = fault[1]
        else:
            self._waiting[architecture.name] = fault[1]

    def pending(self, architectures: Sequence[Architecture]) -> list[Architecture]:
        """Return those for which calling it on tensors without memory failed."""
        return [a for a in architectures if a.name in self._waiting]

    def add_small(self, architecture: Architecture, answer: dict[str, Any]) -> None:
        """Take what a process told of the small shapes."""
        first = self._waiting.pop(architecture.name)
        fault = _fault(answer, architecture)
        if fault is not None:
            self._faults[architecture.name] = fault[1] if fault[0] else first
            return
        told = getattr(first.outcome, "reason", "")
        self._begin(architecture, answer, f"compiled for smaller shapes than the task's: {told}")

    def give_up(self) -> None:
        """Let what waits fail with what it raised."""
        self._faults.update(self._waiting)
        self._waiting.clear()

    def _begin(self, architecture: Architecture, answer: dict[str, Any], note: str) -> None:
        kernels = answer.get("kernels")
        if not isinstance(kernels, list):
            raise forged("no list of kernels")
        try:
            found = self._native(architecture)
            others, more = native_kernels(found, answer.get("natives"), architecture)
        except Fault as fault:
            self._faults[architecture.name] = fault
            return
        if not kernels and not others:
            self._faults[architecture.name] = Fault(
                Refused(
                    reason="it launches no kernel of its own: the library did the work",
                    trick="no-own-kernel",
                )
            )
            return
        assemblies = self._running.setdefault(architecture.name, [])
        for told in kernels[:64]:
            assemblies.append(self._assembler.begin(architecture, told, self._scratch))
        self._others[architecture.name] = others
        notes = [*more, *(str(line)[:300] for line in answer.get("notes", []))][:20]
        self._notes[architecture.name] = (*([note] if note else []), *notes)

    def finish(self) -> dict[str, Built | Fault]:
        """Wait for the assemblers."""
        built: dict[str, Built | Fault] = {**self._faults, **self._waiting}
        for name, assemblies in self._running.items():
            try:
                kernels = tuple(assembly.finish() for assembly in assemblies)
                kernels += self._others.get(name, ())
            except Fault as fault:
                built[name] = fault
            else:
                built[name] = Built(kernels=kernels, notes=self._notes[name])
        return built

    def close(self) -> None:
        """End what still runs."""
        for assemblies in self._running.values():
            for assembly in assemblies:
                assembly.close()


def _fault(answer: dict[str, Any], architecture: Architecture) -> tuple[bool, Fault] | None:
    """Return (whether it is final, the fault) of an answer, None where there is none."""
    found = answer.get("faults") or []
    if found and isinstance(found[0], list) and len(found[0]) == 2:
        kind, text = str(found[0][0]), str(found[0][1])[:1000]
        if kind in {"compile", "resources"}:
            reason = f"for {architecture.name}: {text}"
            return True, Fault(BuildFailed(reason=reason, detail=_told(answer).get("message", "")))
        if kind == "bounds":
            return True, Fault(Crashed(reason=f"at the task's shapes: {text}"))
        return False, Fault(Crashed(reason=text))
    told = _told(answer)
    if "raised" not in answer or told.get("fault") == "native":
        return None  # what is compiled and cannot be called here was launched, as far as is known
    return False, Fault(raised(told, "forward"))


def _told(answer: dict[str, Any]) -> dict[str, Any]:
    given = answer.get("raised")
    return given if isinstance(given, dict) else {"type": "an exception", "message": str(given)}
