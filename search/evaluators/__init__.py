"""Evaluators: who turns a source into an outcome."""

from __future__ import annotations

from typing import Protocol

from kb.registry import Registry
from search.outcome import Outcome


class Evaluator(Protocol):
    """Judges sources of one task."""

    def evaluate(self, source: str) -> Outcome:
        """Judge `source`, timing it just long enough to rank it."""
        ...

    def confirm(self, source: str) -> Outcome:
        """Judge a source that passed again, timing it long enough to report it."""
        ...

    def expect(self, source: str, *, thorough: bool = False) -> bool:
        """Have `source` judged in the meantime; False where it is judged here, once it is asked for."""
        ...


EVALUATORS: Registry[Evaluator] = Registry(
    "evaluator",
    {
        "local": "search.evaluators.local:Local",
        "free": "search.evaluators.free:Free",
        "spool": "search.judging.spool.client:Spool",
    },
)
