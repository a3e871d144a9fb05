"""What a candidate's launches become on each architecture: collected while assemblers run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from search.judging.checks import told
from search.judging.dryrun.architecture import Architecture
from search.judging.dryrun.assembler import Assembler, Assembly
from search.judging.dryrun.cubins import cute_kernels
from search.judging.dryrun.nvcc import native_kernels
from search.outcome import BuildFailed, Crashed, Kernel, Refused
from search.profilers.static_resources import Resources
from search.sandbox.faults import Fault, forged, raised


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """What a candidate launches on one architecture."""

    kernels: tuple[Kernel, ...]
    notes: tuple[str, ...] = ()


class Compilation:
    """What a candidate's launches became, architecture by architecture, while assemblers run.

    Args:
        native: compiles its CUDA C++ for an architecture.
        names: of the kernels that it writes in CuTe DSL.

    Attributes:
        crash: what it does out of bounds at the task's own shapes, on every device alike.
    """

    def __init__(
        self,
        assembler: Assembler,
        scratch: Path,
        native: Callable[[Architecture], tuple[Resources, ...]],
        names: Collection[str] = (),
    ) -> None:
        self._assembler = assembler
        self._native = native
        self._names = names
        self._others: dict[str, tuple[Kernel, ...]] = {}
        self._scratch = scratch
        self._running: dict[str, list[Assembly]] = {}
        self._notes: dict[str, tuple[str, ...]] = {}
        self._faults: dict[str, Fault] = {}
        self._waiting: dict[str, Fault] = {}
        self.crash: Fault | None = None

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
            if isinstance(fault[1].outcome, Crashed):
                self.crash = fault[1]
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

    def fail(self, architecture: Architecture, fault: Fault) -> None:
        """Take what ended a process that was compiling."""
        self._faults[architecture.name] = fault

    def _begin(self, architecture: Architecture, answer: dict[str, Any], note: str) -> None:
        kernels = answer.get("kernels")
        if not isinstance(kernels, list):
            raise forged("no list of kernels")
        try:
            found = self._native(architecture)
            launches = answer.get("natives")
            others, more = native_kernels(found, launches, architecture)
            others += cute_kernels(launches, self._scratch, self._names, architecture)
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
        for kernel in kernels[:64]:
            assemblies.append(self._assembler.begin(architecture, kernel, self._scratch))
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
            reason = f"for {architecture.name}: {'; '.join(text.splitlines())}"
            return True, Fault(BuildFailed(reason=reason, detail=told(answer).get("message", "")))
        if kind == "bounds":
            return True, Fault(Crashed(reason=f"at the task's shapes: {text}"))
        return False, Fault(Crashed(reason=text))
    given = told(answer)
    if "raised" not in answer or given.get("fault") == "native":
        return None  # what is compiled and cannot be called here was launched, as far as is known
    return False, Fault(raised(given, "forward"))
