"""Islands: several populations that evolve apart, and now and then send each other their best."""

from __future__ import annotations

from random import Random

from search.attempt import Attempt
from search.policies.beam import Fastest
from search.standings import Standings

ISLANDS = 3
MIGRATION = 4  # rounds
_WIDTH = 2  # parents of a round, each of another island
_KEPT = 4  # attempts that an island remembers


class Islands:
    """Takes the best of two islands a round, in turn.

    What is made of the reference is dealt to the islands idea by idea; what is made of an attempt lives
    where its parent does. At every `migration` rounds the best of each island is sent to the next one, in
    a ring, and competes there.

    Sources: Tanese, "Distributed genetic algorithms" (1989) for islands and migration in a ring;
    Romera-Paredes et al., "Mathematical discoveries from program search with large language models"
    (Nature 2024, FunSearch) for islands of programs that a model writes.

    Args:
        islands: how many.
        migration: rounds between two migrations.
    """

    def __init__(self, islands: int = ISLANDS, migration: int = MIGRATION) -> None:
        self._islands = islands
        self._migration = migration

    def select(self, standings: Standings, round: int, rng: Random) -> tuple[Attempt, ...]:  # noqa: ARG002 - turns decide
        """Return the best of the islands whose turn it is, the best first."""
        found = standings.index(Archipelago, self._islands, self._migration)
        turns = ((_WIDTH * round + one) % self._islands for one in range(self._islands))
        chosen: dict[int, Attempt] = {}
        for island in turns:
            best = found.best(island)
            if best is not None and len(chosen) < _WIDTH:
                chosen.setdefault(best.number, best)
        return tuple(sorted(chosen.values(), key=lambda attempt: -attempt.merit))


class Archipelago:
    """Which attempts live on which island."""

    def __init__(self, islands: int, migration: int) -> None:
        self._fastest = [Fastest(_KEPT) for _ in range(islands)]
        self._migration = migration
        self._homes: dict[int, int] = {}
        self._dealt = 0
        self._founder: tuple[int, str] | None = None
        self._migrated = 0

    def best(self, island: int) -> Attempt | None:
        """Return the fastest attempt of an island, None where nothing stands there."""
        return next(iter(self._fastest[island].attempts), None)

    def proposed(self, parent: int | None, round: int) -> None:  # noqa: ARG002 - the round alone counts
        """Let migrants sail before a round that is due."""
        while self._migrated < round // self._migration:
            self._migrated += 1
            best = [self.best(island) for island in range(len(self._fastest))]
            for island, migrant in enumerate(best):
                if migrant is not None:
                    self._fastest[(island + 1) % len(best)].judged(migrant)

    def judged(self, attempt: Attempt) -> None:
        """Settle an attempt."""
        self.proposed(attempt.parent, attempt.round)
        home = self._homes.get(-1 if attempt.parent is None else attempt.parent)
        if home is None:
            founder = (attempt.round, attempt.idea.title)
            if founder != self._founder:
                self._founder, self._dealt = founder, self._dealt + 1
            home = (self._dealt - 1) % len(self._fastest)
        self._homes[attempt.number] = home
        self._fastest[home].judged(attempt)
