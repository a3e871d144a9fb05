"""Several tasks on one budget: rounds go where the roofline and the course so far promise most."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kb.app.live import held
from kb.app.run import Turn, evolve, resume
from kb.config import Home
from kb.errors import ConfigError, KbError, StoreError
from kb.progress import Progress, say
from search.portfolio.budget import Budget
from search.portfolio.headroom import Course, choose, expected_gain
from search.task import Task, is_reference

if TYPE_CHECKING:
    from kb.app.run import Watch
    from search.graph import Graph
    from search.runs.storage import Record, Storage

_FOLDER = "portfolios"
_SPENT = "the portfolio's budget is spent"


@dataclass(frozen=True, kw_only=True)
class Share:
    """One task of a portfolio.

    Attributes:
        path: of its file.
        run: the run that searches it, None before its first round.
        minutes: that its rounds took, preparation included.
        problem: why it was given up, None where it was not.
    """

    path: str
    run: str | None = None
    minutes: float = 0.0
    problem: str | None = None


@dataclass(frozen=True, kw_only=True)
class Portfolio:
    """What is kept of a portfolio beside the records of its runs."""

    name: str
    budget: Budget
    shares: tuple[Share, ...]
    overrides: dict[str, Any] = field(default_factory=dict)


def task_files(paths: Sequence[Path]) -> list[Path]:
    """Return the tasks that files and folders name: YAML files, and references that none of them names.

    Raises:
        ConfigError: there is none, or two have one name.
    """
    from search.task import load_task

    found: dict[Path, None] = {}
    for path in paths:
        if not path.is_dir():
            found[path] = None
            continue
        inside = sorted(path.iterdir())
        described = [one for one in inside if one.suffix in {".yaml", ".yml"}]
        named = {load_task(one).reference for one in described}
        bare = [
            one
            for one in inside
            if one.suffix == ".py" and one.absolute() not in named and is_reference(one)
        ]
        found.update(dict.fromkeys([*described, *bare]))
    if not found:
        shown = ", ".join(map(str, paths))
        raise ConfigError(f"{shown}: expected task files (.yaml, .py), found none: name others")
    return list(found)


def begin(
    home: Home, paths: Sequence[Path], budget: Budget, overrides: dict[str, Any]
) -> Portfolio:
    """Give a portfolio a name that no run has, and keep it; nothing is searched yet."""
    from kb.knowledge import open_tables
    from search.runs.storage import Storage

    folder = home.root / _FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    shares = tuple(Share(path=str(path.absolute())) for path in paths)
    runs = {row.run for row in Storage(open_tables(home)).runs()}
    while True:
        taken = runs | {one.stem for one in folder.glob("*.json")}
        number = next(n for n in range(1, len(taken) + 2) if f"portfolio-{n}" not in taken)
        name = f"portfolio-{number}"
        try:
            (folder / f"{name}.json").touch(exist_ok=False)
        except FileExistsError:
            continue  # another process took the name at this moment
        portfolio = Portfolio(name=name, budget=budget, shares=shares, overrides=overrides)
        _keep(home, portfolio)
        return portfolio


def find(home: Home, name: str) -> Portfolio | None:
    """Return the portfolio of a name, None where there is none.

    Raises:
        StoreError: its file cannot be read.
    """
    path = home.root / _FOLDER / f"{Path(name).name}.json"
    if not path.is_file():
        return None
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        return Portfolio(
            name=kept["name"],
            budget=Budget(**kept["budget"]),
            shares=tuple(Share(**one) for one in kept["shares"]),
            overrides=kept["overrides"],
        )
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{path}: expected a portfolio, found what cannot be read") from error


class PortfolioRun:
    """Spends a portfolio's budget a round at a time.

    Args:
        load: makes the task of a file, with what the command line said.
        watch: makes what shows each candidate as it is judged.
        announce: takes what the user should know of a task before its first round.
    """

    def __init__(
        self,
        home: Home,
        portfolio: Portfolio,
        load: Callable[[Path], Task],
        progress: Progress,
        watch: Watch,
        announce: Callable[[str], None],
    ) -> None:
        from kb.database import open_engine
        from search.runs.storage import Storage

        self._home = home
        self._portfolio = portfolio
        self._load = load
        self._progress = progress
        self._watch = watch
        self._announce = announce
        self._storage: Storage = Storage(open_engine(home))
        self._interrupted = False
        self._began: tuple[int, float] | None = None  # the share whose turn it is, and since when

    def spend(self) -> dict[str, Any]:
        """Spend the budget, measure the best of each task again, and return the report.

        Raises:
            ConfigError: another process spends it.
        """
        name = self._portfolio.name
        try:
            with held(self._home.root / _FOLDER / f"{name}.lock", name):
                # Who spent it until now may have begun runs since it was found.
                found = find(self._home, name) or self._portfolio
                # What failed may be mended by now.
                mended = tuple(replace(one, problem=None) for one in found.shares)
                self._portfolio = replace(found, shares=mended)
                self._search()
                self._finish()
        except KeyboardInterrupt:
            self._interrupted = True
            say(f"interrupted: `kb resume {self._portfolio.name}` goes on from here")
        return self.report()

    def report(self) -> dict[str, Any]:
        """Return what was found and spent, task by task."""
        rows = [self._row(place) for place in range(len(self._portfolio.shares))]
        # Once one has begun, a task that was given up or never begun counts as 1.0: it gained nothing.
        begun = any(row["run"] for row in rows)
        logs = [math.log(row["speedup"] or 1.0) for row in rows]
        mean = math.exp(sum(logs) / len(logs)) if begun else None
        return {
            "portfolio": self._portfolio.name,
            "budget": asdict(self._portfolio.budget),
            "spent": self._spent(),
            "geometric_mean": mean,
            "interrupted": self._interrupted,
            "tasks": rows,
        }

    def _search(self) -> None:
        while (left := self._portfolio.budget.amount - self._spent()) > 0:
            courses = [self._course(place) for place in range(len(self._portfolio.shares))]
            place = choose(courses)
            if place is None:
                return
            share, course = self._portfolio.shares[place], courses[place]
            gain = f"{math.expm1(expected_gain(course)):.1%}" if course.best else "unknown"
            what = share.run or Path(share.path).name
            say(
                f"{self._portfolio.name}: round {len(course.best) + 1} of {what} (expected gain {gain}), "
                f"{left:.4g} of {self._portfolio.budget} left"
            )
            self._turn(place, left)

    def _finish(self) -> None:
        """End each search, and measure its best again."""
        for place, share in enumerate(self._portfolio.shares):
            if share.run is None or share.problem is not None:
                continue
            if self._storage.run(share.run).status != "finished":
                record = self._storage.record(share.run)
                if record.stop_reason is None:
                    record.finish_search(_SPENT)
                self._do(place, None)

    def _turn(self, place: int, left: float) -> None:
        tokens = None
        if self._portfolio.budget.unit == "tokens":
            run = self._portfolio.shares[place].run
            tokens = int(left + (self._tokens(run) if run else 0))
        self._do(place, Turn(rounds=1, tokens=tokens))

    def _do(self, place: int, turn: Turn | None) -> None:
        """Search a task on; a task that cannot be searched is given up, and said to be."""
        share = self._portfolio.shares[place]
        self._began = (place, time.monotonic())
        shown = (self._progress, self._watch)
        try:
            if share.run is None:
                task = self._load(Path(share.path))
                self._put(place, replace(share, run=None))
                ended = evolve(
                    self._home,
                    task,
                    *shown,
                    begun=lambda run: self._put(place, replace(share, run=run)),
                    turn=turn,
                )
            else:
                ended = resume(self._home, share.run, *shown, self._announce, turn)
            if ended.interrupted:
                raise KeyboardInterrupt
        except KbError as error:
            say(f"{share.run or share.path} is given up: {error}")
            self._put(place, replace(self._portfolio.shares[place], problem=str(error)))
        finally:
            self._book()

    def _book(self) -> None:
        """Add the time of a turn to its share."""
        if self._began is not None:
            place, since = self._began
            self._began = None
            share = self._portfolio.shares[place]
            minutes = share.minutes + (time.monotonic() - since) / 60
            self._put(place, replace(share, minutes=minutes))

    def _put(self, place: int, share: Share) -> None:
        shares = list(self._portfolio.shares)
        shares[place] = share
        self._portfolio = replace(self._portfolio, shares=tuple(shares))
        _keep(self._home, self._portfolio)

    def _course(self, place: int) -> Course:
        share = self._portfolio.shares[place]
        if share.run is None:
            return Course(best=(), cost=0.0, roofline=0.0, ended=share.problem is not None)
        record = self._storage.record(share.run)
        return Course(
            best=best_by_round(record.graph),
            cost=self._cost(share, record),
            roofline=record.graph.best_roofline,
            ended=record.stop_reason is not None or share.problem is not None,
        )

    def _cost(self, share: Share, record: Record) -> float:
        unit = self._portfolio.budget.unit
        if unit == "minutes":  # a turn that was killed is in the record alone
            return max(share.minutes, record.elapsed / 60)
        return self._tokens(record.run) if unit == "tokens" else float(record.graph.judged)

    def _tokens(self, run: str) -> float:
        from search.runs.spending import spending

        rows = spending(self._storage.engine, run)
        return float(sum(row["tokens_in"] + row["tokens_out"] for row in rows if row["paid"]))

    def _spent(self) -> float:
        return sum(
            self._cost(share, self._storage.record(share.run))
            for share in self._portfolio.shares
            if share.run is not None
        )

    def _row(self, place: int) -> dict[str, Any]:
        share = self._portfolio.shares[place]
        course = self._course(place)
        row: dict[str, Any] = {
            "task": Path(share.path).stem,
            "path": share.path,
            "run": share.run,
            "rounds": len(course.best),
            "cost": course.cost,
            "speedup": None,
            "roofline": course.roofline or None,
            "expected_gain": math.expm1(expected_gain(course)) if course.best else None,
            "stop_reason": None,
            "problem": share.problem,
        }
        if share.run is not None:
            known = self._storage.run(share.run)
            best = (known.report or {}).get("best")
            speed = best["speedup"]["eager"]["ratio"] if best and "speedup" in best else None
            # What a finished run withdrew is no speed-up of it.
            so_far = course.best[-1] if course.best and known.report is None else None
            row["speedup"] = speed or so_far
            row["stop_reason"] = known.stop_reason
        return row


def best_by_round(graph: Graph) -> tuple[float, ...]:
    """Return the best speed-up over eager after each round that has begun, at least 1."""
    rounds = max((slot.round + 1 for slot in graph.proposals), default=0)
    best = [1.0] * rounds
    for attempt in graph.attempts():
        best[attempt.round] = max(best[attempt.round], attempt.speedup)
    for round in range(1, rounds):
        best[round] = max(best[round - 1], best[round])
    return tuple(best)


def _keep(home: Home, portfolio: Portfolio) -> None:
    path = home.root / _FOLDER / f"{portfolio.name}.json"
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(asdict(portfolio), indent=1), encoding="utf-8")
    fresh.replace(path)
