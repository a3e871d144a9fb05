"""Policies: which nodes to evolve next."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Protocol

from kb.registry import Registry
from search.attempt import Attempt


class Policy(Protocol):
    """Chooses parents.

    A policy keeps no state: all that it knows is in the attempts, so that a run resumed from its
    record chooses as the run that wrote it.
    """

    def select(self, attempts: Sequence[Attempt], round: int, rng: Random) -> tuple[Attempt, ...]:
        """Return the parents of `round`, the best first; empty to start from the reference."""
        ...


POLICIES: Registry[Policy] = Registry(
    "policy",
    {"beam": "search.policies.beam:Beam", "greedy": "search.policies.greedy:Greedy"},
)
