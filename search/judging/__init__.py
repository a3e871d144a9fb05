"""Judges: they turn the sources of one task into outcomes, each on a device of its kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from search.outcome import Outcome

if TYPE_CHECKING:
    from search.finding import Look
    from search.judging.limits import Prepared
    from search.judging.trial import TrialSet


class Judge(Protocol):
    """Judges sources of one task.

    What a candidate does wrong is an outcome, never an exception. Outcomes of one judge may be
    compared with each other: it measures the baselines once, and again beside each candidate.
    """

    def prepare(self, progress: Callable[[str], None] = ...) -> Prepared:
        """Do what is done before the first candidate: the reference's answers, the baselines.

        Raises:
            KbError: the task cannot be judged here; one line says why.
        """
        ...

    def judge(self, source: str, *, thorough: bool = False) -> Outcome:
        """Judge `source`.

        Args:
            thorough: time it long enough to report it, not just long enough to rank it.
        """
        ...

    def close(self) -> None:
        """End every process of the judge."""
        ...


@runtime_checkable
class Prefetching(Protocol):
    """A judge that is a trip away, and can be asked ahead."""

    @property
    def context(self) -> str:
        """What an outcome depends on besides the source: known once the judge is prepared."""
        ...

    def expect(self, source: str, *, thorough: bool = False) -> None:
        """Start judging `source`, and do not wait for its outcome."""
        ...


@runtime_checkable
class Inheriting(Protocol):
    """A judge whose successor need not measure again what right answers are off by.

    Attributes:
        measured: set before it is prepared, what another judge of the same task has measured: this one draws other inputs. Then
            what it has itself, without inputs; None where others must measure anew.
    """

    measured: TrialSet | None


@runtime_checkable
class Looking(Protocol):
    """A judge that can look closer at a program than its outcome tells."""

    def look(self, source: str) -> Look:
        """Return what counters and compilers say of `source`, which passed."""
        ...
