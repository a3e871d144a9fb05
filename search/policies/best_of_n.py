"""Best of N: every candidate is made from the reference; what search gains is measured against it."""

from __future__ import annotations

from random import Random

from search.attempt import Attempt
from search.standings import Standings


class BestOfN:
    """Never grows anything from what was found: as many samples as the budget has, and the best of them.

    Failures are still mended, as with every policy. Where authors are told of earlier attempts at all
    is the task's `memory`; with this policy its rule tells them of none (`search.loop`).

    Source: repeated sampling, Brown et al., "Large Language Monkeys" (arXiv 2407.21787), the baseline
    that KernelBench reports as pass@k and fast@k.
    """

    samples_alone = True

    def select(self, standings: Standings, round: int, rng: Random) -> tuple[Attempt, ...]:  # noqa: ARG002 - it chooses nothing
        """Return no parent."""
        return ()
