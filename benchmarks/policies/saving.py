"""What a budget by headroom saves: recorded searches of many tasks, given their rounds in another order.

    python -m benchmarks.policies.saving              # some minutes of one core

Each task is searched to its end once, by `beam`, and its rounds are recorded: what each cost, and the
best after it. A portfolio decides only which task's round comes next, so a record tells exactly what
each way to spend comes to. Three groups of tasks: 30 real runs by a strong model as they were recorded
(24 of benchmarks/letters_ablation, the six of examples/runs; a round is two candidates and costs their
share of the run's tokens; only the six have a roofline), 24 landscapes made of those six (kept.py; a
round costs the same tokens), and 24 made-up machines with the real offline author
(tests/search/landscape.py; no roofline, a round costs its candidates).

Ways to spend: `equal` gives every task a round in turn, `in order` finishes one task after the other,
`headroom` is `search.portfolio.headroom`, `rooflines alone` takes the task that is farthest from its
bound, `foreseen` knows every record and takes the best prefix a cost: no portfolio can be better by
much. Printed is the share of the full budget after which the geometric mean over the tasks stays at
95 % (99 %) of what the full budget reaches; intervals from 500 bootstrap samples over tasks.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from benchmarks.policies.__main__ import search
from benchmarks.policies.kept import kept_runs
from search.portfolio.headroom import Course, choose

_LETTERS = Path(__file__).parents[1] / "letters_ablation" / "results.json"
_SEEDS = 4
_MACHINES = 12
_CANDIDATES = 60
_ROUND = 6  # candidates of a round: three ideas, two branches
_RESAMPLES = 500


@dataclass(frozen=True, kw_only=True)
class Trace:
    """A recorded search.

    Attributes:
        costs: of each round.
        best: the best speed-up over eager after each round, at least 1.
        bound: speed-up over eager at the roofline, 0 where none is known.
    """

    name: str
    costs: tuple[float, ...]
    best: tuple[float, ...]
    bound: float

    def course(self, rounds: int) -> Course:
        """Return what a portfolio knows of it after so many rounds."""
        reached = self.best[rounds - 1] / self.bound if rounds and self.bound else 0.0
        return Course(
            best=self.best[:rounds],
            cost=sum(self.costs[:rounds]),
            roofline=min(1.0, reached),
            ended=rounds == len(self.costs),
        )


Way = Callable[[Sequence[Trace], Sequence[int]], int | None]


def trace(
    name: str, speeds: Sequence[float], cost: float, bound: float, round: int = _ROUND
) -> Trace:
    """Return the record of a search whose rounds have so many candidates, each of a cost."""
    parts = [speeds[at : at + round] for at in range(0, len(speeds), round)]
    best, reached = 1.0, []
    for part in parts:
        best = max(best, *part)
        reached.append(best)
    costs = tuple(cost * len(part) for part in parts)
    return Trace(name=name, costs=costs, best=tuple(reached), bound=bound)


def recorded_traces() -> list[Trace]:
    """Return real runs as they were recorded."""
    rows = json.loads(_LETTERS.read_text())
    letters = [
        trace(
            f"{row['task']}/{row['arm']}", row["gains"], row["tokens"] / len(row["gains"]), 0.0, 2
        )
        for row in rows
    ]
    kept = [trace(run.name, run.trace, run.tokens, run.roofline, 2) for run in kept_runs()]
    return [*letters, *kept]


def kept_traces() -> list[Trace]:
    """Return searches of the kept runs' landscapes."""
    return [
        trace(
            f"{run.name}/{seed}", search(run, seed, "beam", _CANDIDATES), run.tokens, run.roofline
        )
        for run in kept_runs()
        for seed in range(_SEEDS)
    ]


def made_up_traces() -> list[Trace]:
    """Return searches of two tasks on machines that are made up."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "search"))
    from landscape import SHAPES, Landscape, Play
    from machines import TWO_CORES

    play, found = Play(TWO_CORES), []
    for task in SHAPES:
        for seed in range(_MACHINES):
            with tempfile.TemporaryDirectory() as folder:
                terms = {"candidates": _CANDIDATES, "learn": False, "search": {"rounds": 30}}
                played = play.run(Path(folder), task, Landscape(seed, task), **terms)
            found.append(trace(f"{task}/{seed}", played.speeds, 1.0, 0.0))
    return found


def equal(traces: Sequence[Trace], rounds: Sequence[int]) -> int | None:
    left = [at for at, one in enumerate(traces) if rounds[at] < len(one.costs)]
    return min(left, key=lambda at: (rounds[at], at), default=None)


def in_order(traces: Sequence[Trace], rounds: Sequence[int]) -> int | None:
    return next((at for at, one in enumerate(traces) if rounds[at] < len(one.costs)), None)


def by_headroom(traces: Sequence[Trace], rounds: Sequence[int]) -> int | None:
    return choose([one.course(count) for one, count in zip(traces, rounds, strict=True)])


def rooflines_alone(traces: Sequence[Trace], rounds: Sequence[int]) -> int | None:
    left = [at for at, one in enumerate(traces) if rounds[at] < len(one.costs)]
    return min(left, key=lambda at: (traces[at].course(rounds[at]).roofline, at), default=None)


def foreseen(traces: Sequence[Trace], rounds: Sequence[int]) -> int | None:
    best, chosen = -1.0, None
    for at, one in enumerate(traces):
        start = one.best[rounds[at] - 1] if rounds[at] else 1.0
        for end in range(rounds[at] + 1, len(one.costs) + 1):
            worth = math.log(one.best[end - 1] / start) / sum(one.costs[rounds[at] : end])
            if worth > best:
                best, chosen = worth, at
    return chosen


WAYS: dict[str, Way] = {
    "in order": in_order,
    "equal": equal,
    "rooflines alone": rooflines_alone,
    "headroom": by_headroom,
    "foreseen": foreseen,
}


def needed(traces: Sequence[Trace], way: Way, share: float) -> float:
    """Return the share of the full budget after which the mean stays at `share` of its end."""
    target = sum(math.log(one.best[-1]) for one in traces) + len(traces) * math.log(share)
    rounds, spent, reached = [0] * len(traces), 0.0, 0.0
    while reached < target:
        at = way(traces, rounds)
        assert at is not None
        one = traces[at]
        start = one.best[rounds[at] - 1] if rounds[at] else 1.0
        reached += math.log(one.best[rounds[at]] / start)
        spent += one.costs[rounds[at]]
        rounds[at] += 1
    return spent / sum(sum(one.costs) for one in traces)


def interval(traces: Sequence[Trace], way: Way, share: float) -> tuple[float, float]:
    """Return the 95 % interval of `needed` over tasks."""
    rng = Random(0)
    found = sorted(
        needed(rng.choices(traces, k=len(traces)), way, share) for _ in range(_RESAMPLES)
    )
    return found[int(0.025 * _RESAMPLES)], found[int(0.975 * _RESAMPLES)]


def main() -> None:
    groups = (
        ("Recorded runs", recorded_traces),
        ("Landscapes of kept runs", kept_traces),
        ("Made-up machines", made_up_traces),
    )
    for title, make in groups:
        traces = make()
        mean = math.exp(sum(math.log(one.best[-1]) for one in traces) / len(traces))
        print(f"\n{title}: {len(traces)} tasks, {mean:.2f}x over eager at the full budget\n")
        print("| way to spend | budget for 95 % of the mean | for 99 % |\n|---|---|---|")
        for name, way in WAYS.items():
            cells = []
            for share in (0.95, 0.99):
                low, high = interval(traces, way, share)
                cells.append(f"{needed(traces, way, share):.0%} ({low:.0%} to {high:.0%})")
            print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
