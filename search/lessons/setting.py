"""Where a run's measurements were taken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date

from search.attempt import Attempt, Diagnosis


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceRun:
    """The run that evidence is of.

    Attributes:
        eager_seconds: of one call of the reference.
        at: day of the run.
    """

    run: str
    task: str
    target: str
    eager_seconds: float
    at: date | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting(EvidenceRun):
    """Where the run's measurements were taken.

    Attributes:
        identity: of the task, see `Task.identity`.
        symptoms: of the reference.
        shapes: one line for people: "4x3x224x224 -> 4x96x27x27".
        regime: of the shapes, see `regime_of`.
        diagnose: says what holds an attempt back, None where nothing can.
    """

    identity: str
    architecture: str
    language: str
    families: tuple[str, ...]
    symptoms: tuple[str, ...]
    shapes: str
    regime: str = ""
    precision: str = "strict"
    diagnose: Callable[[Attempt], Diagnosis] | None = None
