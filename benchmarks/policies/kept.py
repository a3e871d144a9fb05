"""Runs that were kept, made into landscapes that any policy can search.

A record holds what became of ideas upon the parents that its own policy chose; another policy chooses
others. So a landscape draws each candidate's outcome from the record: the part of the way that was left
to the bound which a recorded candidate went (on a log scale, backwards too), or a failure. What was
recorded upon the reference is drawn upon the reference, what was recorded upon a candidate upon
candidates. The bound is a guess: 1.25 times the best of the record, or the roofline where that is less;
nobody knows how far the task goes. What is drawn follows from the seed, the parent's source, the idea and the branch, so that two policies that
try the same find the same. Ideas differ more than implementations of one, as they do in the records:
half of a candidate's way is its idea's.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from search.attempt import Attempt, Draft, Idea, Moment
from search.judging.limits import Prepared
from search.outcome import Outcome, Passed, Ratio, Wrong, from_json
from search.runs.imports import read_rows

RUNS = Path(__file__).parents[2] / "examples" / "runs"
_ROOM = 1.25  # times the best of a run: how far its task is taken to go


@dataclass(frozen=True, kw_only=True)
class Kept:
    """What a kept run tells of its task.

    Attributes:
        first, later: of each candidate that passed, upon the reference and upon others: the part of the
            log way left to the bound that it went.
        fails: share of candidates that failed.
        mends: share of failures that the next repair mended.
        bound: speed-up over eager that the landscape does not exceed.
        roofline: speed-up over eager at the task's roofline, as its record has it; 0 where it has none.
        tokens: of models for each candidate, on average.
        trace: speed-up of each candidate in the order of judging, 0 where it failed.
    """

    name: str
    first: tuple[float, ...]
    later: tuple[float, ...]
    fails: float
    mends: float
    bound: float
    roofline: float
    tokens: float
    trace: tuple[float, ...]


def kept_runs() -> list[Kept]:
    """Return every run of the folder of kept runs."""
    return [_read(path) for path in sorted(RUNS.glob("*.run.gz"))]


def _read(path: Path) -> Kept:
    rows: dict[str, list[dict[str, str]]] = {}
    for line in read_rows(path):
        if "table" in line:
            rows.setdefault(line["table"], []).append(line["row"])
    outcomes = {row["key"]: from_json(row["outcome"]) for row in rows["outcomes"]}
    judged = {
        int(row["number"]): (row["parent"], outcomes[row["outcome"]])
        for row in sorted(rows["nodes"], key=lambda row: int(row["number"]))
        if row["outcome"] is not None
    }
    speeds = {number: _speed(outcome) for number, (_, outcome) in judged.items()}
    bounds = [
        speeds[number] / outcome.profile["roofline"]
        for number, (_, outcome) in judged.items()
        if isinstance(outcome, Passed) and outcome.profile.get("roofline")
    ]
    top = max(speeds.values())
    bound = max(1.02 * top, min([_ROOM * top, *bounds]))
    first, later, repairs, mended = [], [], 0, 0
    for number, (parent, _) in judged.items():
        above = 1.0 if parent is None else speeds[int(parent)]
        if above == 0:
            repairs, mended = repairs + 1, mended + (speeds[number] > 0)
        elif speeds[number]:
            ways = first if parent is None else later
            ways.append(math.log(speeds[number] / above) / math.log(bound / above))
    failed = sum(speed == 0 for speed in speeds.values())
    replies = [json.loads(row["reply"]) for row in rows.get("exchanges", ())]
    tokens = sum(int(one["tokens_in"]) + int(one["tokens_out"]) for one in replies)
    return Kept(
        name=path.name.removesuffix(".run.gz"),
        first=tuple(first),
        later=tuple(later),
        fails=failed / len(speeds),
        mends=mended / repairs if repairs else 0.5,
        bound=bound,
        roofline=max(bounds, default=0.0),
        tokens=tokens / len(speeds),
        trace=tuple(speeds.values()),
    )


def _speed(outcome: Outcome) -> float:
    return outcome.speedup["eager"].ratio if isinstance(outcome, Passed) else 0.0


class Resampled:
    """Author and judge of a landscape; the source of a candidate says what is to become of it."""

    def __init__(self, run: Kept, seed: int) -> None:
        self._run = run
        self._seed = seed
        self.speeds: list[float] = []

    def ideas(self, moment: Moment, count: int) -> tuple[Idea, ...]:
        upon = "" if moment.parent is None else moment.parent.draft.source
        tried = sum(
            attempt.branch == 0 and attempt.parent == getattr(moment.parent, "number", None)
            for attempt in moment.history
        )
        categories = ("memory access", "parallelism", "compute and instructions")
        return tuple(
            Idea(title=f"{upon}>{tried + n}", text="", category=categories[(tried + n) % 3])
            for n in range(count)
        )

    def draft(
        self, moment: Moment, idea: Idea, branch: int, siblings: tuple[Attempt, ...]
    ) -> Draft | None:
        return self._draft(moment, f"{idea.title}.{branch}", idea.title, self._run.fails)

    def repair(self, moment: Moment, failed: Attempt) -> Draft | None:
        name = f"{_name(failed.draft.source)}!"
        return self._draft(moment, name, failed.idea.title, 1 - self._run.mends)

    def _draft(self, moment: Moment, name: str, idea: str, fails: float) -> Draft:
        one = self._random("branch", name)
        if one.random() < fails:
            return Draft(source=f"{_short(name)}=0")
        above = 1.0 if moment.parent is None else moment.parent.speedup
        ways = self._run.first if moment.parent is None else self._run.later
        way = (self._random("idea", idea).choice(ways) + one.choice(ways)) / 2
        speed = above * (self._run.bound / above) ** min(way, 0.95)
        return Draft(source=f"{_short(name)}={speed * one.lognormvariate(0, 0.02):.9g}")

    def _random(self, *place: str) -> Random:
        return Random("/".join((self._run.name, str(self._seed), *place)))

    def prepare(self, progress: Callable[[str], None] = lambda _: None) -> Prepared:
        raise NotImplementedError  # a driver prepares no judge

    def judge(self, source: str, *, thorough: bool = False) -> Outcome:
        speed = min(float(source.rpartition("=")[2]), self._run.bound)
        self.speeds.append(speed)
        if speed == 0:
            return Wrong(reason="drawn")
        return Passed(
            seconds=1e-3 / speed,
            samples=9,
            speedup={"eager": Ratio(ratio=speed, low=0.98 * speed, high=1.02 * speed)},
            max_error=0.0,
            allowed_error=1.0,
            profile={"roofline": speed / self._run.roofline} if self._run.roofline else {},
        )

    def close(self) -> None: ...


def _name(source: str) -> str:
    return source.rpartition("=")[0]


def _short(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:16]
