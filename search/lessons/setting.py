"""Where a run's measurements were taken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date

from search.attempt import Attempt, Diagnosis


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Where the run's measurements were taken.

    Attributes:
        symptoms: of the reference.
        shapes: one line for people: "4x3x224x224 -> 4x96x27x27".
        regime: of the shapes, see `regime_of`.
        at: day of the run.
        diagnose: says what holds an attempt back, None where nothing can.
    """

    run: str
    task: str
    identity: str  # of the task, see `Task.identity`
    target: str
    architecture: str
    language: str
    families: tuple[str, ...]
    symptoms: tuple[str, ...]
    shapes: str
    eager_seconds: float
    regime: str = ""
    precision: str = "strict"
    at: date | None = None
    diagnose: Callable[[Attempt], Diagnosis] | None = None
