"""What a policy's choice costs as a run grows: milliseconds a round, its twelve attempts taken in.

    python -m benchmarks.policies.selection [ATTEMPTS]        # default 100,000

A round is four ideas with three attempts each upon what the policy chose; outcomes are drawn.
"""

from __future__ import annotations

import statistics
import sys
import time
from random import Random

from search.attempt import Attempt, Draft, Idea
from search.outcome import Outcome, Passed, Ratio, Wrong
from search.policies import POLICIES, Policy
from search.standings import Standings

_ROUND = 12  # attempts
_WINDOW = 200  # rounds of which the median is shown
_SOURCE = 'from kb.native import load_cpp\nop = load_cpp("int kernel() { return 0; }")  # %d\n'


def outcome(rng: Random, above: float) -> Outcome:
    if rng.random() < 0.3:
        return Wrong(reason="drawn")
    ratio = max(0.1, above * rng.lognormvariate(0, 0.2))
    return Passed(
        seconds=1e-3 / ratio,
        samples=1,
        speedup={"eager": Ratio(ratio=ratio, low=ratio, high=ratio)},
        max_error=0.0,
        allowed_error=0.0,
    )


def grow(policy: Policy, attempts: int) -> list[float]:
    """Return the milliseconds of each round of a run that grows as the policy says."""
    standings, rng = Standings(), Random(0)
    costs, number = [], 0
    for round in range(attempts // _ROUND):
        made = []
        began = time.perf_counter()
        parents = policy.select(standings, round, Random(round)) or (None,)
        costs.append(time.perf_counter() - began)
        for place in range(_ROUND):
            parent = parents[place % len(parents)]
            made.append(
                Attempt(
                    number=number,
                    parent=None if parent is None else parent.number,
                    round=round,
                    branch=place % 3,
                    idea=Idea(title=f"idea {number // 3}", text="", category="parallelism"),
                    draft=Draft(source=_SOURCE % number),
                    outcome=outcome(rng, 1.0 if parent is None else min(20.0, parent.speedup)),
                )
            )
            number += 1
        began = time.perf_counter()
        for parent in parents:
            standings.propose(None if parent is None else parent.number, round)
        for attempt in made:
            standings.add(attempt)
        costs[-1] += time.perf_counter() - began
    return [1e3 * seconds for seconds in costs]


def main() -> None:
    attempts = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    sizes = [size for size in (1_000, 10_000, attempts) if size <= attempts]
    print("| policy | " + " | ".join(f"ms a round at {size:,}" for size in sizes) + " |")
    print("|---" * (len(sizes) + 1) + "|")
    for name in POLICIES:
        costs = grow(POLICIES.create(name), attempts)
        ends = [min(len(costs), size // _ROUND) for size in sizes]
        shown = [f"{statistics.median(costs[max(0, end - _WINDOW) : end]):.2f}" for end in ends]
        print(f"| `{name}` | " + " | ".join(shown) + " |")


if __name__ == "__main__":
    main()
