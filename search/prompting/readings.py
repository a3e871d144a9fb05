"""What authors may read by name, noted where it counts as retrieved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from kb.records.types import Scope
from kb.retrieval.effect_estimate import Where
from kb.retrieval.lookup import Reading
from search.prompting.knowledge_view import Witness


class Readings(Protocol):
    """Answers by name, as `kb.retrieval.lookup.RecordReader`."""

    def read(self, name: str) -> Reading:
        """Return a record whole, or the beginning of a plain document."""
        ...

    def module(self, name: str, scope: Scope | None = None, first: Sequence[str] = ()) -> Reading:
        """Return a page of the index, what applies first."""
        ...

    def history(self, name: str, where: Where | None = None) -> Reading:
        """Return what an idea gained."""
        ...


class Witnessed:
    """Readings that tell a witness what was read whole: it counts as retrieved."""

    def __init__(self, readings: Readings, witness: Witness) -> None:
        self._readings = readings
        self._witness = witness

    def ask_through(self, wrap: Callable[[Readings], Readings]) -> None:
        """Ask others from now on: what `wrap` makes of the present ones."""
        self._readings = wrap(self._readings)

    def read(self, name: str) -> Reading:
        """Return a record whole, or the beginning of a plain document."""
        found = self._readings.read(name)
        self._witness.saw(found.passages)
        return found

    def module(self, name: str, scope: Scope | None = None, first: Sequence[str] = ()) -> Reading:
        """Return a page of the index: its lines only name records."""
        return self._readings.module(name, scope, first)

    def history(self, name: str, where: Where | None = None) -> Reading:
        """Return what an idea gained: its text is not among it."""
        return self._readings.history(name, where)
