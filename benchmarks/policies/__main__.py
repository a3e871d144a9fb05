"""What each policy finds for the same number of candidates: the table of docs/search.md.

    python -m benchmarks.policies                # both tables, some ten minutes of one core
    python -m benchmarks.policies --kept         # the kept runs alone

Landscapes: the six runs of examples/runs (`kept.py` says how they are made into landscapes), and two
neighbouring tasks on machines that are made up, searched by the real offline author
(tests/search/landscape.py). Five seeds each. A figure is the geometric mean, over landscapes and seeds,
of the best speed-up over that of `beam` with the same budget, its interval from 10,000 bootstrap samples
over landscapes and seeds.
"""

from __future__ import annotations

import math
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from benchmarks.policies.kept import Kept, Resampled, kept_runs
from kb.config import Home
from kb.database import open_engine
from search.attempt import Diagnosis
from search.drivers.sequential import Driver
from search.loop import Search
from search.policies import POLICIES, make_policy
from search.prompting.readings import RecordingRetriever
from search.runs.storage import Storage
from search.task import TaskFile

SEEDS = range(5)
VARIANTS: dict[str, dict[str, object]] = {
    **{policy: {"policy": policy} for policy in POLICIES},
    "uct, exploration 0.2": {"policy": "uct", "exploration": 0.2},
}
BUDGETS = (12, 24, 60, 120)
MADE_UP = (8, 16, 30)
Speeds = Sequence[float]  # of one run, in the order of judging, 0 where a candidate failed


class Silent:
    """Retrieves nothing, and shows nothing."""

    def search(self, query: object) -> list[object]:
        return []

    def begins(self, work: object) -> None: ...

    def ends(self, work: object, result: object) -> None: ...

    def confirms(self, node: int, outcome: object) -> None: ...


def search(run: Kept, seed: int, policy: str, candidates: int) -> Speeds:
    """Search a kept run's landscape; return the speed of each candidate."""
    stop = {"candidates": candidates, "minutes": None, "stalled_rounds": None, "roofline": None}
    settings = TaskFile.model_validate(
        {
            "reference": "none.py",
            "search": {**VARIANTS[policy], "rounds": 1000, "ideas": 3, "branches": 2, "seed": seed},
            "stop": stop,
        }
    )
    landscape = Resampled(run, seed)
    with tempfile.TemporaryDirectory() as folder:
        storage = Storage(open_engine(Home(Path(folder))))
        one = Search(
            storage.begin("kept", {}),
            make_policy(settings.search),
            settings,
            lambda _: Diagnosis(symptoms=(), lines=()),
            lambda: 0.0,
            context=f"{run.name}/{seed}",
        )
        witness = RecordingRetriever(Silent())
        Driver(one, landscape, landscape, storage, witness, Silent()).run()
    return landscape.speeds


def kept_results() -> dict[str, list[Speeds]]:
    """Return, by policy, the speeds of each landscape and seed, always in the same order."""
    runs = kept_runs()
    return {
        policy: [search(run, seed, policy, max(BUDGETS)) for run in runs for seed in SEEDS]
        for policy in VARIANTS
    }


def made_up_results() -> dict[str, list[Speeds]]:
    """Return the same of the machines that are made up."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "search"))
    from landscape import SHAPES, Landscape, Play
    from machines import TWO_CORES

    play = Play(TWO_CORES)
    found: dict[str, list[Speeds]] = {policy: [] for policy in VARIANTS}
    for policy, speeds in found.items():
        chosen = {**VARIANTS[policy], "rounds": 30}
        for task in SHAPES:
            for seed in SEEDS:
                with tempfile.TemporaryDirectory() as folder:
                    place = Landscape(seed, task)
                    terms = {"candidates": max(MADE_UP), "learn": False, "search": chosen}
                    speeds.append(play.run(Path(folder), task, place, **terms).speeds)
    return found


def best(speeds: Speeds, candidates: int) -> float:
    """Return the best speed-up of the first candidates; eager's own where nothing beats it."""
    return max((1.0, *speeds[:candidates]))


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of the mean, from bootstrap samples."""
    rng = Random(0)
    means = sorted(statistics.fmean(rng.choices(values, k=len(values))) for _ in range(10_000))
    return means[250], means[9749]


def table(found: dict[str, list[Speeds]], budgets: Sequence[int]) -> None:
    """Print a row for each policy, a column for each budget."""
    print("| policy | " + " | ".join(f"{count} candidates" for count in budgets) + " |")
    print("|---" * (len(budgets) + 1) + "|")
    for policy, runs in found.items():
        cells = []
        for budget in budgets:
            mine = [best(speeds, budget) for speeds in runs]
            theirs = [best(speeds, budget) for speeds in found["beam"]]
            logs = [math.log(a / b) for a, b in zip(mine, theirs, strict=True)]
            mean = math.exp(statistics.fmean(map(math.log, mine)))
            if policy == "beam":
                cells.append(f"1 ({mean:.2f}x over eager)")
                continue
            low, high = map(math.exp, interval(logs))
            cells.append(f"{math.exp(statistics.fmean(logs)):.3f} ({low:.3f} to {high:.3f})")
        print(f"| {policy} | " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    parts: list[tuple[str, Callable[[], dict[str, list[Speeds]]], Sequence[int]]] = [
        ("Landscapes of the six kept runs", kept_results, BUDGETS)
    ]
    if "--kept" not in sys.argv:
        parts.append(
            ("Two tasks on made-up machines, the offline author", made_up_results, MADE_UP)
        )
    for title, results, budgets in parts:
        print(f"\n{title}:\n")
        table(results(), budgets)


if __name__ == "__main__":
    main()
