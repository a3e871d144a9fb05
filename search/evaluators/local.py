"""Judges in this process and its children, one candidate at a time."""

from __future__ import annotations

from search.judging.cpu.judge import Judge
from search.outcome import Outcome


class Local:
    """An evaluator over a judge on this machine."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge

    def evaluate(self, source: str) -> Outcome:
        """Judge `source`, timing it just long enough to rank it."""
        return self._judge.judge(source)

    def confirm(self, source: str) -> Outcome:
        """Judge `source` again, timing it long enough to report it."""
        return self._judge.judge(source, thorough=True)

    def expect(self, source: str, *, thorough: bool = False) -> bool:  # noqa: ARG002 - as every evaluator
        """Do nothing: whoever is judged meanwhile would disturb the timing."""
        return False
