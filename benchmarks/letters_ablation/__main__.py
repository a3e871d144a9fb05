"""Print what the arms of the ablation came to, from the records beside this file.

    python -m benchmarks.letters_ablation                     # the table
    python -m benchmarks.letters_ablation --runs              # one line a run
    python -m benchmarks.letters_ablation --add now HOME      # take up the finished run of a home
    python -m benchmarks.letters_ablation --record first_round    # the trial of one round; with --runs and --add too

An arm is `none` (no retrieval), `before` (the retrieval of 811d7be) or `now`. docs/loop-retrieval.md says how the runs
were made.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from kb.config import Home
from kb.database import open_engine
from search.graph import Node
from search.runs.spending import spending
from search.runs.storage import Storage

RECORDS = {"three_rounds": "results.json", "first_round": "first_round.json"}
ARMS = ("none", "before", "now")
UNSOLVED = 1.0  # speed-up where a candidate failed: the reference stays
NEAR = 0.9  # of the best that any run of a task reached
RESAMPLES = 10_000


@dataclass(frozen=True, kw_only=True)
class Run:
    """What one run came to.

    Attributes:
        first: share of its ideas whose first candidate was right.
        eager, compile: best speed-ups, 0 where nothing passed.
        tokens: of all letters and answers.
        gains: speed-up over eager of each candidate in their order, 0 where it failed.
    """

    arm: str
    task: str
    first: float
    eager: float
    compile: float
    tokens: int
    gains: tuple[float, ...]

    @property
    def passed(self) -> int:
        """Candidates that passed."""
        return sum(gain > 0 for gain in self.gains)


def read_home(arm: str, home: Path) -> Run:
    """Read the one run of a home that has candidates."""
    storage = Storage(open_engine(Home(home)))
    found = [(row, storage.record(row.run).graph.nodes) for row in storage.runs()]
    ((row, nodes),) = [(row, nodes) for row, nodes in found if nodes]
    report = row.report or {}
    best = report.get("best") or {"speedup": {}}
    ratios = {base: one["ratio"] for base, one in best["speedup"].items()}
    first: dict[tuple[object, object], Node] = {}
    for node in nodes:
        first.setdefault((node.step.slot, node.step.idea), node)
    right = [node.outcome is not None and node.outcome.kind == "passed" for node in first.values()]
    calls = spending(storage.engine, row.run)
    return Run(
        arm=arm,
        task=report["task"],
        first=sum(right) / len(right),
        eager=ratios.get("eager", 0.0),
        compile=ratios.get("compile", 0.0),
        tokens=sum(one["tokens_in"] + one["tokens_out"] for one in calls),
        gains=tuple(node.attempt().speedup for node in nodes if node.outcome is not None),
    )


def kept_runs(record: Path) -> list[Run]:
    """Return the runs on record."""
    if not record.is_file():
        return []
    rows = json.loads(record.read_text(encoding="utf-8"))
    return [Run(**{**row, "gains": tuple(row["gains"])}) for row in rows]


def add_run(record: Path, arm: str, home: Path) -> None:
    """Put the run of a home on record, in place of an earlier one of its arm and task."""
    new = read_home(arm, home)
    others = [one for one in kept_runs(record) if (one.arm, one.task) != (new.arm, new.task)]
    rows = sorted([*others, new], key=lambda one: (one.task, ARMS.index(one.arm)))
    text = ",\n".join(json.dumps(asdict(one)) for one in rows)
    record.write_text(f"[\n{text}\n]\n", encoding="utf-8")


def nodes_to_near(run: Run, best: float) -> float:
    """Return the number of the first candidate near the best of its task; one more than all if none is."""
    near = (at for at, gain in enumerate(run.gains, start=1) if gain >= NEAR * best)
    return float(next(near, len(run.gains) + 1))


def main() -> None:
    """Print the table, or the runs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--runs", action="store_true")
    parser.add_argument("--add", nargs=2, metavar=("ARM", "HOME"))
    parser.add_argument("--record", choices=RECORDS, default="three_rounds")
    given = parser.parse_args()
    record = Path(__file__).parent / RECORDS[given.record]
    if given.add:
        add_run(record, given.add[0], Path(given.add[1]))
        return
    runs = kept_runs(record)
    best = {one.task: max(r.eager for r in runs if r.task == one.task) for one in runs}
    if given.runs:
        print(
            "| task | arm | candidates | right | right at first | over eager | over torch.compile | tokens |"
        )
        print("|---|---|---|---|---|---|---|---|")
        for one in sorted(runs, key=lambda run: (run.task, ARMS.index(run.arm))):
            print(
                f"| {one.task} | {one.arm} | {len(one.gains)} | {one.passed} | {one.first:.0%} | "
                f"{one.eager:.2f}x | {one.compile:.2f}x | {one.tokens:,} |"
            )
        return
    measures: list[tuple[str, Callable[[Run], float], bool]] = [
        ("right at the first attempt", lambda run: run.first, False),
        ("speed-up of the first candidate", lambda run: run.gains[0] or UNSOLVED, True),
        ("best speed-up over eager", lambda run: run.eager or UNSOLVED, True),
        ("best speed-up over torch.compile", lambda run: run.compile or UNSOLVED, True),
        (
            "candidates to 90 % of the best known",
            lambda run: nodes_to_near(run, best[run.task]),
            True,
        ),
        ("tokens a right candidate", lambda run: run.tokens / max(1, run.passed), True),
    ]
    print(
        f"| measure | {' | '.join(ARMS)} | now beside none | now beside before |\n|---|---|---|---|---|---|"
    )
    if not any(one.compile for one in runs):
        measures = [one for one in measures if "torch.compile" not in one[0]]
    for name, measure, ratio in measures:
        cells = [_mean([measure(run) for run in runs if run.arm == arm], ratio) for arm in ARMS]
        beside = [_beside(runs, measure, other, ratio) for other in ARMS[:2]]
        print(f"| {name} | {' | '.join(cells)} | {' | '.join(beside)} |")


def _mean(values: Sequence[float], ratio: bool) -> str:
    if not values:
        return "-"
    found = math.exp(float(np.mean(np.log(values)))) if ratio else float(np.mean(values))
    return f"{found:,.0f}" if found > 100 else f"{found:.2f}"


def _beside(runs: Sequence[Run], measure: Callable[[Run], float], other: str, ratio: bool) -> str:
    """Return the ratio (or difference) of `now` to another arm over their common tasks, with its interval."""
    by_arm = {
        arm: {run.task: measure(run) for run in runs if run.arm == arm} for arm in (other, "now")
    }
    tasks = sorted(set(by_arm["now"]) & set(by_arm[other]))
    if not tasks:
        return "-"
    pairs = [(by_arm["now"][task], by_arm[other][task]) for task in tasks]
    moved = np.array([math.log(a / b) if ratio else a - b for a, b in pairs])
    drawn = np.random.default_rng(0).integers(0, len(moved), (RESAMPLES, len(moved)))
    low, high = np.percentile(moved[drawn].mean(1), [2.5, 97.5])
    middle = float(moved.mean())
    if ratio:
        return f"{math.exp(middle):.2f} ({math.exp(low):.2f} to {math.exp(high):.2f}), {len(tasks)} tasks"
    return f"{middle:+.2f} ({low:+.2f} to {high:+.2f}), {len(tasks)} tasks"


if __name__ == "__main__":
    main()
