"""A judge that several threads may ask: it does one thing at a time, as its device does."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING

from search.judging import Judge, Looking
from search.outcome import Outcome

if TYPE_CHECKING:
    from search.finding import Look
    from search.judging.limits import Prepared


class Serial:
    """Passes each request on when the one before it has its answer."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._lock = Lock()

    def prepare(self, progress: Callable[[str], None] = lambda _: None) -> Prepared:
        """Prepare the judge."""
        with self._lock:
            return self._judge.prepare(progress)

    def judge(self, source: str, *, thorough: bool = False) -> Outcome:
        """Have a source judged."""
        with self._lock:
            return self._judge.judge(source, thorough=thorough)

    def close(self) -> None:
        """Close the judge."""
        self._judge.close()


class SerialLooking(Serial):
    """The same of a judge that can look closer."""

    def look(self, source: str) -> Look:
        """Have a source looked at."""
        assert isinstance(self._judge, Looking)
        with self._lock:
            return self._judge.look(source)


def serial(judge: Judge) -> Serial:
    """Return `judge` for several threads, still one that looks closer where it is."""
    return SerialLooking(judge) if isinstance(judge, Looking) else Serial(judge)
