"""What a policy chooses by: the attempts of finished rounds, and indexes that are kept up with them.

An index is made of nothing but the graph, so that a policy itself keeps no state. It is told of each
proposal and of each attempt once, in the order of their steps: however many were judged at once, and
in whatever order, it comes to the same.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, Protocol, TypeVar, overload

from search.attempt import Attempt
from search.outcome import STANDING

_GAIN = 1.01  # a round gains where its best is more than one per cent above the best before


class StandingsIndex(Protocol):
    """Sums a search up, a proposal and an attempt at a time."""

    def proposed(self, parent: int | None, round: int) -> None:
        """Take up that ideas were asked for upon `parent` (None: the reference)."""
        ...

    def judged(self, attempt: Attempt) -> None:
        """Take up an attempt; its parents came before it."""
        ...


Made = TypeVar("Made", bound=StandingsIndex)


class Standings:
    """The attempts of all rounds before one, with the indexes that policies asked for.

    Attributes:
        attempts: in the order of their steps.
    """

    def __init__(self) -> None:
        self.attempts: list[Attempt] = []
        self._proposals: list[tuple[int, int | None, int]] = []  # after how many attempts
        self._indexes: dict[Hashable, Any] = {}
        self._parents: set[int] = set()
        self._best = [0.0]

    def index(self, make: Callable[..., Made], *settings: Hashable) -> Made:
        """Return the index that `make(*settings)` makes, told of all that is here."""
        key = (make, *settings)
        found: Made | None = self._indexes.get(key)
        if found is None:
            found = make(*settings)
            self._indexes[key] = found
            self._replay(found)
        return found

    def propose(self, parent: int | None, round: int) -> None:
        """Add that ideas were asked for."""
        self._proposals.append((len(self.attempts), parent, round))
        for index in self._indexes.values():
            index.proposed(parent, round)

    def add(self, attempt: Attempt) -> None:
        """Add an attempt, later than all that are here."""
        self.attempts.append(attempt)
        if attempt.parent is not None:
            self._parents.add(attempt.parent)
        self._reach(attempt.round + 1)
        if attempt.outcome.kind in STANDING:
            self._best[-1] = max(self._best[-1], attempt.merit)
        for index in self._indexes.values():
            index.judged(attempt)

    @property
    def best(self) -> float:
        """The best merit; 0 where nothing stands."""
        return self._best[-1]

    def is_parent(self, number: int) -> bool:
        """Say whether something was made upon an attempt."""
        return number in self._parents

    def rounds_without_gain(self, round: int) -> int:
        """Return how many rounds before `round` gained nothing; 0 where nothing stands yet."""
        self._reach(round)
        return rounds_without_gain(self._best[: round + 1])

    def _reach(self, round: int) -> None:
        """Carry the best merit before each round on up to that before `round`."""
        self._best += [self._best[-1]] * (round + 1 - len(self._best))

    def _replay(self, index: StandingsIndex) -> None:
        at = 0
        for after, parent, round in self._proposals:
            for attempt in self.attempts[at:after]:
                index.judged(attempt)
            at = after
            index.proposed(parent, round)
        for attempt in self.attempts[at:]:
            index.judged(attempt)


def standings_of(attempts: Sequence[Attempt]) -> Standings:
    """Return the standings of attempts alone, for those who have no graph."""
    found = Standings()
    for attempt in attempts:
        found.add(attempt)
    return found


def rounds_without_gain(best: Sequence[float]) -> int:
    """Return how many of the last rounds gained nothing.

    Args:
        best: the best merit before each round, the last one's included; 0 where nothing stood.
    """
    since, last = 0, len(best) - 1
    while since < last and best[last] <= best[last - since - 1] * _GAIN:
        since += 1
    return since if best[last] else 0


class Past(Sequence[Attempt]):
    """The first so many of a list that only grows, and a few more: a tuple of them that costs nothing."""

    __slots__ = ("_attempts", "_length", "_more")

    def __init__(self, attempts: list[Attempt] | Past, more: tuple[Attempt, ...] = ()) -> None:
        self._attempts: list[Attempt] = (
            attempts._attempts if isinstance(attempts, Past) else attempts
        )
        self._length: int = attempts._length if isinstance(attempts, Past) else len(attempts)
        self._more: tuple[Attempt, ...] = (
            attempts._more if isinstance(attempts, Past) else ()
        ) + more

    def __len__(self) -> int:
        return self._length + len(self._more)

    def __iter__(self) -> Iterator[Attempt]:
        return chain(islice(self._attempts, self._length), self._more)

    @overload
    def __getitem__(self, place: int) -> Attempt: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Attempt]: ...
    def __getitem__(self, place: int | slice) -> Attempt | Sequence[Attempt]:
        if isinstance(place, slice):
            return (*self._attempts[: self._length], *self._more)[place]
        at = range(len(self))[place]
        return self._attempts[at] if at < self._length else self._more[at - self._length]
