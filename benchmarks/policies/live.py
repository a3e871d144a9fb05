"""A portfolio on real tasks: rounds by headroom against rounds in turn, judged on this processor.

    nice -n 10 python -m benchmarks.policies.live OUT.json [--candidates 24] [--seed 0] [--ways headroom "in turn"]

Four tasks of examples/, the offline author, one budget of candidates, once each way with the same seeds.
Sources that the first way had judged are not judged again by the second, so that noise of the clock is
not taken for a difference. Candidates are counted when their outcome is known.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from benchmarks.policies.real import EXAMPLES, _take_outcomes
from kb.app import portfolio
from kb.app.command_line import task_with
from kb.config import Home
from kb.progress import say, silent
from search.outcome import Outcome, Passed
from search.pieces import JudgeNode, Result, Work
from search.portfolio.budget import parse_budget
from search.portfolio.headroom import Course, choose

TASKS = ("softmax", "layernorm", "chain", "matmul_epilogue")
SHARE = 0.95


@dataclass
class Spent:
    """Best speed-ups of all tasks after each candidate."""

    best: dict[str, float] = field(default_factory=lambda: dict.fromkeys(TASKS, 1.0))
    means: list[float] = field(default_factory=list)
    order: list[str] = field(default_factory=list)

    def watching(self, record: Any, *_: object) -> Watching:
        """Return what is told of one run's candidates."""
        return Watching(self, record.run.rpartition("-")[0].replace("-", "_"))


class Watching:
    """Notes what the candidates of one run came to."""

    def __init__(self, spent: Spent, task: str) -> None:
        self._spent = spent
        self._task = task

    def begins(self, work: Work) -> None: ...

    def confirms(self, node: int, outcome: Outcome) -> None: ...

    def ends(self, work: Work, result: Result) -> None:
        if not isinstance(work, JudgeNode):
            return
        best = self._spent.best
        if isinstance(result, Passed) and not result.degenerate:
            best[self._task] = max(best[self._task], result.speedup["eager"].ratio)
        self._spent.order.append(self._task)
        logs = [math.log(value) for value in best.values()]
        self._spent.means.append(math.exp(sum(logs) / len(logs)))
        say(f"{len(self._spent.means)}: {self._task} {best[self._task]:.2f}x")


def in_turn(courses: Sequence[Course]) -> int | None:
    """Return the place of the open task with the fewest rounds."""
    open_ = [place for place, course in enumerate(courses) if not course.ended]
    return min(open_, key=lambda place: (len(courses[place].best), place), default=None)


def spend(home: Home, files: list[Path], candidates: int, way: Any) -> Spent:
    """Spend a budget in a home of its own."""
    os.environ["KB_HOME"] = str(home.root)
    begun = portfolio.begin(home.make(), files, parse_budget(f"{candidates} candidates"), {})
    spent = Spent()
    portfolio.choose = way  # the one place where it is decided who is next
    portfolio.PortfolioRun(home, begun, task_with, silent, spent.watching, say).spend()
    return spent


def _keep_outcomes(mine: Path, known: Path) -> None:
    with sqlite3.connect(mine) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # it is open here still
    shutil.copy(mine, known)


WAYS = {"headroom": choose, "in turn": in_turn}


def needed(means: Sequence[float], goal: float) -> int | None:
    """Return the candidates after which the log of the mean is a share of the log of a goal."""
    logs = (math.log(mean) for mean in means)
    wanted = SHARE * math.log(goal)
    return next((number for number, log in enumerate(logs, 1) if log >= wanted), None)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("out", type=Path)
    options.add_argument("--candidates", type=int, default=24)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument(
        "--known", type=Path, help="database of an earlier run, whose outcomes hold"
    )
    options.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS))
    given = options.parse_args()
    rows: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder, known = Path(name), Path(name, "known.db")
        if given.known is not None:
            shutil.copy(given.known, known)
        files = []
        for task in TASKS:
            settings = {
                "reference": str(EXAMPLES / f"{task}.py"),
                "author": "recipes",
                "search": {"seed": given.seed, "rounds": 50, "ideas": 2, "branches": 1},
                "stop": {"candidates": given.candidates, "minutes": None},
                "final_seconds": 1.0,
            }
            files.append(folder / f"{task}.yaml")
            files[-1].write_text(yaml.safe_dump(settings))
        for way in given.ways:
            home = Home(folder / way.replace(" ", "-"))
            home.make()
            if known.exists():
                _take_outcomes(home.database, known)
            spent = spend(home, files, given.candidates, WAYS[way])
            _keep_outcomes(home.database, known)
            rows[way] = {"means": spent.means, "order": spent.order, "best": spent.best}
    goal = max(row["means"][-1] for row in rows.values())
    for row in rows.values():
        row["candidates"] = needed(row["means"], goal)
    given.out.write_text(json.dumps(rows, indent=1))
    for way, row in rows.items():
        best = ", ".join(f"{task} {ratio:.2f}x" for task, ratio in row["best"].items())
        print(
            f"{way}: {row['candidates']} of {len(row['means'])} candidates to {SHARE:.0%} of the gain of "
            f"{goal:.2f}x; ends at {row['means'][-1]:.2f}x ({best})"
        )


if __name__ == "__main__":
    main()
