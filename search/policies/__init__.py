"""Policies: which nodes to evolve next."""

from __future__ import annotations

import inspect
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

from kb.errors import ConfigError
from kb.registry import Registry
from search.attempt import Attempt
from search.standings import Standings

if TYPE_CHECKING:
    from search.settings import SearchSettings


class Policy(Protocol):
    """Chooses parents.

    A policy keeps no state: all that it knows is in the standings, so that a run resumed from its
    record chooses as the run that wrote it.
    """

    def select(self, standings: Standings, round: int, rng: Random) -> tuple[Attempt, ...]:
        """Return the parents of `round`, the best first; empty to start from the reference."""
        ...


POLICIES: Registry[Policy] = Registry(
    "policy",
    {
        "beam": "search.policies.beam:Beam",
        "best-of-n": "search.policies.best_of_n:BestOfN",
        "elites": "search.policies.elites:Elites",
        "greedy": "search.policies.greedy:Greedy",
        "islands": "search.policies.islands:Islands",
        "uct": "search.policies.uct:Uct",
    },
)
_SETTINGS = ("exploration", "islands", "migration")


def make_policy(settings: SearchSettings) -> Policy:
    """Return the policy that a task asks for, with the settings that it has.

    Raises:
        ConfigError: there is no such policy, or it has no use for a setting that was given.
    """
    taken = inspect.signature(POLICIES.factory(settings.policy)).parameters
    given: dict[str, Any] = {
        name: value for name in _SETTINGS if (value := getattr(settings, name)) is not None
    }
    for name in given:
        if name not in taken:
            raise ConfigError(
                f"search: policy {settings.policy!r} has no setting {name!r}: leave it out"
            )
    return POLICIES.create(settings.policy, **given)
