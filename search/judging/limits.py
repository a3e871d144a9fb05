"""What a judge is asked to keep to, and what it knows before the first candidate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from search.costs.graph import OperatorGraph, Work
from search.sandbox.sandbox import SandboxPart

if TYPE_CHECKING:
    from search.task import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a candidate may use.

    Attributes:
        build_seconds: to compile all its native parts.
        start_seconds: to import it and construct its model.
        call_seconds: for one call, besides thirty times the framework's.
        memory: bytes beyond the task's own tensors.
        timing_seconds, thorough_seconds: of one timing session, about.
        compile: time torch.compile too.
        batch: timed calls in a row on a GPU, at most; 1 has them share memory as where it is scarce.
    """

    build_seconds: float = 60.0
    start_seconds: float = 20.0
    call_seconds: float = 3.0
    memory: int = 4 << 30
    timing_seconds: float = 1.0
    thorough_seconds: float = 10.0
    compile: bool = True
    batch: int = 100


def limits_of(task: Task) -> dict[str, Any]:
    """Return the limits that a task sets; the others are `Limits`' own."""
    chosen = task.settings
    without = {} if chosen.compiler else {"compile": False}
    seconds = {
        "timing_seconds": chosen.timing_seconds,
        "thorough_seconds": chosen.final_seconds,
    }
    return {**seconds, **without}


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """What is known before the first candidate.

    Attributes:
        baselines: seconds of one call of "eager" and, where it works, "compile".
        compile_error: why torch.compile is no baseline, None where it is one.
        dropped: distributions that the reference cannot take, with the reason.
        sandbox: the walls that stand, and those that do not.
        graph, work: None where the reference cannot be traced.
        notes: what the user should know, a line each.
    """

    baselines: Mapping[str, float]
    compile_error: str | None
    dropped: tuple[tuple[str, str], ...]
    sandbox: tuple[SandboxPart, ...]
    graph: OperatorGraph | None
    work: Work | None
    notes: tuple[str, ...] = field(default=())
