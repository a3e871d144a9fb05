"""What of the search an author is told: chosen for every node, by rule or by the task.

KernelEvolve (arXiv 2512.23236, section 3.2) gives its one operator the parent's trajectory, the
siblings' attempts, both or neither. Neither leaves a local optimum: who sees the best program and all
that was tried on it writes one more variant of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from search.attempt import Attempt, Memory
from search.standings import Standings
from search.won_or_lost import origin

Choice = Literal["rule", "trajectory", "siblings", "both", "clean"]
PLATEAU = 2  # rounds without a gain, after which one parent of a round gets a clean slate


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """A search as seen from one parent.

    Attributes:
        trajectory: numbers of the attempts from the first ancestor down to the parent.
        siblings: numbers of what was made upon the parent; what was made of the reference where
            there is no parent.
    """

    trajectory: frozenset[int]
    siblings: frozenset[int]


def choose_memory(
    choice: Choice, parent: Attempt | None, standings: Standings, round: int, *, last: bool
) -> Memory:
    """Return how much of the search the ideas upon `parent` are told of.

    Args:
        standings: of earlier rounds.
        last: it is the last parent of its round: the one that a clean slate costs least.
    """
    if choice != "rule":
        return choice
    if last and parent is not None and plateau(standings, round):
        return "clean"
    if parent is None:
        return "siblings"
    if not standings.is_parent(parent.number):
        return "trajectory"
    return "siblings" if parent.parent is None else "both"


def plateau(standings: Standings, round: int) -> bool:
    """Say whether the last rounds gained nothing, at every second round of a plateau.

    Between two clean slates a round goes on from the best, so that what a clean slate found can be
    built upon.
    """
    since = standings.rounds_without_gain(round)
    return since >= PLATEAU and (since - PLATEAU) % 2 == 0


def recall(parent: Attempt | None, attempts: Iterable[Attempt]) -> Recalled:
    """Return which attempts are near `parent`."""
    known = {attempt.number: attempt for attempt in attempts}
    path: list[int] = []
    at = parent
    while at is not None:
        path.append(at.number)
        at = known.get(at.parent) if at.parent is not None else None
    of = None if parent is None else parent.number
    upon = {n for n, attempt in known.items() if origin(attempt, known) == of}
    return Recalled(trajectory=frozenset(path), siblings=frozenset(upon - set(path)))
