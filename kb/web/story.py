"""A run as pages need it: candidates in short, without sources, prompts and replies."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from search.attempt import Idea
from search.graph import Slot, Step
from search.outcome import STANDING, Ratio

BASELINES = ("eager", "compile")
# What reading a row raises that another program wrote, or a hand changed.
UNREADABLE = (
    KeyError, IndexError, TypeError, ValueError, AttributeError, RecursionError, ArithmeticError,
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Best:
    """What a run reports as its best, measured again where it is finished.

    Attributes:
        speedup: by baseline; empty where nothing was timed.
    """

    node: int
    idea: str
    seconds: float | None
    speedup: Mapping[str, Ratio]
    confirmed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Brief:
    """A run in one line.

    Attributes:
        address: its name in addresses.
        state: running, finished or interrupted; broken where its record cannot be read.
        seconds: wall time, resumes included.
        families: of the reference's operators.
    """

    number: int
    run: str
    address: str
    task: str
    target: str
    language: str
    author: str
    state: str
    stop_reason: str
    started: float
    seconds: float
    candidates: int
    outcomes: Mapping[str, int]
    best: Best | None
    baselines: Mapping[str, float]
    families: tuple[str, ...]
    timed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A node in short.

    Attributes:
        outcome: kind of its outcome, ``pending`` before it is judged.
        reason: why it failed, on one line.
        at: when it was judged, seconds since the epoch.
        measured: name of the outcome: what another run had measured before has its name there.
        second: of the run by then, pauses left out; None where that was not kept.
    """

    number: int
    parent: int | None
    step: Step
    outcome: str
    reason: str = ""
    seconds: float | None = None
    speedup: Mapping[str, Ratio]
    merit: float = 0.0
    own_share: float | None = None
    drifted: bool = False
    unseen: bool = False
    at: float | None = None
    second: float | None = None
    measured: str = ""

    @property
    def group(self) -> tuple[Slot, int]:
        """The idea that it implements, by its place in the search."""
        return self.step.slot, self.step.idea

    @property
    def stands(self) -> bool:
        """Say whether a search may build on it."""
        return self.outcome in STANDING

    def ratio(self, baseline: str = "eager") -> Ratio | None:
        """Return its speed-up over a baseline."""
        return self.speedup.get(baseline)


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposed:
    """The ideas of one place of the search, and the node that they are for."""

    parent: int | None
    ideas: tuple[Idea, ...]
    retrieved: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class Story:
    """A run with its candidates.

    Attributes:
        calls: moments of the requests to models, with the tokens of all up to each.
    """

    brief: Brief
    version: str
    candidates: tuple[Candidate, ...]
    proposals: Mapping[Slot, Proposed]
    calls: tuple[tuple[float, int], ...]

    def idea(self, one: Candidate) -> Idea:
        """Return the idea that a candidate implements."""
        return self.proposals[one.step.slot].ideas[one.step.idea]

    def path(self, number: int) -> list[Candidate]:
        """Return the candidates from the first ancestor down to `number`."""
        path = [self.candidates[number]]
        while path[-1].parent is not None:
            path.append(self.candidates[path[-1].parent])
        return path[::-1]

    def base(self, one: Candidate) -> Candidate | None:
        """Return the nearest ancestor that passed, None where it started from the reference."""
        number = one.parent
        while number is not None:
            parent = self.candidates[number]
            if parent.outcome == "passed":
                return parent
            number = parent.parent
        return None

    @cached_property
    def judged(self) -> tuple[Candidate, ...]:
        """The candidates that have an outcome, by number."""
        return tuple(one for one in self.candidates if one.outcome != "pending")

    @cached_property
    def children(self) -> Mapping[int | None, tuple[int, ...]]:
        """The numbers of the candidates that were made from each candidate."""
        found: dict[int | None, list[int]] = {}
        for one in self.candidates:
            found.setdefault(one.parent, []).append(one.number)
        return {parent: tuple(numbers) for parent, numbers in found.items()}

    @cached_property
    def best_number(self) -> int | None:
        """The best node: as reported, else the one of the highest merit so far."""
        return None if self.brief.best is None else self.brief.best.node

    def seconds(self) -> list[float]:
        """Return for each judged candidate the seconds that the run had taken by then.

        Where an older `kb` did not keep them they are counted by the clock on the wall, pauses
        included. They never fall, whatever was judged before in another run.
        """
        if all(one.second is not None for one in self.judged):
            times: Iterable[float] = (one.second or 0.0 for one in self.judged)
            return list(accumulate(times, max))
        return [at - self.brief.started for at in self._moments()]

    def _moments(self) -> list[float]:
        """Return when each judged candidate was, never falling."""
        began = self.brief.started
        return list(accumulate((max(began, one.at or began) for one in self.judged), max))

    def tokens(self) -> list[int]:
        """Return for each judged candidate the tokens that models had read and written by then."""
        moments = [at for at, _ in self.calls]
        return [self._spent(bisect_right(moments, at)) for at in self._moments()]

    def _spent(self, calls: int) -> int:
        return self.calls[calls - 1][1] if calls else 0
