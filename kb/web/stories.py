"""Runs as their pages need them: candidates in short, without sources, prompts and replies.

What is finished does not change, so it is read once. Of a run that goes on only what is new is read:
candidates that were added, and those that had no outcome yet.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from threading import RLock
from typing import Any

from sqlalchemy import Engine, func, select

from kb.database import reading
from kb.errors import StoreError
from kb.web.text import address, one_line
from search.attempt import Idea
from search.graph import Slot, Step
from search.outcome import STANDING, Passed, Ratio
from search.runs.spending import CALLS
from search.runs.storage import NODES, OUTCOMES, PROPOSALS, RUNS

_PART = 400  # parameters of one statement
_MOST_KEPT = 300_000  # candidates of all runs together that stay in memory, some 200 MB
BASELINES = ("eager", "compile")
# What reading a row raises that another program wrote, or a hand changed.
UNREADABLE = (KeyError, IndexError, TypeError, ValueError, AttributeError, RecursionError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Best:
    """What a run reports as its best, measured again where it is finished.

    Attributes:
        speedup: by baseline; empty where nothing was timed.
    """

    node: int
    idea: str
    seconds: float | None
    speedup: Mapping[str, Ratio]
    confirmed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Brief:
    """A run in one line.

    Attributes:
        address: its name in addresses.
        state: running, finished or interrupted; broken where its record cannot be read.
        seconds: wall time, resumes included.
        families: of the reference's operators.
    """

    number: int
    run: str
    address: str
    task: str
    target: str
    language: str
    author: str
    state: str
    stop_reason: str
    started: float
    seconds: float
    candidates: int
    outcomes: Mapping[str, int]
    best: Best | None
    baselines: Mapping[str, float]
    families: tuple[str, ...]
    timed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A node in short.

    Attributes:
        outcome: kind of its outcome, ``pending`` before it is judged.
        reason: why it failed, on one line.
        at: when it was judged, seconds since the epoch.
        measured: name of the outcome: what another run had measured before has its name there.
        second: of the run by then, pauses left out; None where that was not kept.
    """

    number: int
    parent: int | None
    step: Step
    outcome: str
    reason: str = ""
    seconds: float | None = None
    speedup: Mapping[str, Ratio]
    merit: float = 0.0
    own_share: float | None = None
    drifted: bool = False
    at: float | None = None
    second: float | None = None
    measured: str = ""

    @property
    def group(self) -> tuple[Slot, int]:
        """The idea that it implements, by its place in the search."""
        return self.step.slot, self.step.idea

    @property
    def stands(self) -> bool:
        """Say whether a search may build on it."""
        return self.outcome in STANDING

    def ratio(self, baseline: str = "eager") -> Ratio | None:
        """Return its speed-up over a baseline."""
        return self.speedup.get(baseline)


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposed:
    """The ideas of one place of the search, and the node that they are for."""

    parent: int | None
    ideas: tuple[Idea, ...]
    retrieved: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Story:
    """A run with its candidates.

    Attributes:
        calls: moments of the requests to models, with the tokens of all up to each.
    """

    brief: Brief
    version: str
    candidates: tuple[Candidate, ...]
    proposals: Mapping[Slot, Proposed]
    calls: tuple[tuple[float, int], ...]

    def idea(self, one: Candidate) -> Idea:
        """Return the idea that a candidate implements."""
        return self.proposals[one.step.slot].ideas[one.step.idea]

    def path(self, number: int) -> list[Candidate]:
        """Return the candidates from the first ancestor down to `number`."""
        path = [self.candidates[number]]
        while path[-1].parent is not None:
            path.append(self.candidates[path[-1].parent])
        return path[::-1]

    def base(self, one: Candidate) -> Candidate | None:
        """Return the nearest ancestor that passed, None where it started from the reference."""
        number = one.parent
        while number is not None:
            parent = self.candidates[number]
            if parent.outcome == "passed":
                return parent
            number = parent.parent
        return None

    @cached_property
    def judged(self) -> tuple[Candidate, ...]:
        """The candidates that have an outcome, by number."""
        return tuple(one for one in self.candidates if one.outcome != "pending")

    @cached_property
    def children(self) -> Mapping[int | None, tuple[int, ...]]:
        """The numbers of the candidates that were made from each candidate."""
        found: dict[int | None, list[int]] = {}
        for one in self.candidates:
            found.setdefault(one.parent, []).append(one.number)
        return {parent: tuple(numbers) for parent, numbers in found.items()}

    @cached_property
    def best_number(self) -> int | None:
        """The best node: as reported, else the one of the highest merit so far."""
        return None if self.brief.best is None else self.brief.best.node

    def seconds(self) -> list[float]:
        """Return for each judged candidate the seconds that the run had taken by then.

        Where an older `kb` did not keep them they are counted by the clock on the wall, pauses
        included. They never fall, whatever was judged before in another run.
        """
        if all(one.second is not None for one in self.judged):
            times: Iterable[float] = (one.second or 0.0 for one in self.judged)
            return list(accumulate(times, max))
        return [at - self.brief.started for at in self._moments()]

    def _moments(self) -> list[float]:
        """Return when each judged candidate was, never falling."""
        began = self.brief.started
        return list(accumulate((max(began, one.at or began) for one in self.judged), max))

    def tokens(self) -> list[int]:
        """Return for each judged candidate the tokens that models had read and written by then."""
        moments = [at for at, _ in self.calls]
        return [self._spent(bisect_right(moments, at)) for at in self._moments()]

    def _spent(self, calls: int) -> int:
        return self.calls[calls - 1][1] if calls else 0


class Stories:
    """Every run of a record, read as far as it is asked for.

    Args:
        engine: of a record whose tables are there.
        only: the runs that are told of; None for all.
    """

    def __init__(self, engine: Engine, only: frozenset[str] | None = None) -> None:
        self._engine = engine
        self._only = only
        self._lock = RLock()
        self._briefs: dict[int, Brief] = {}  # of finished runs
        self._kept: dict[str, Story] = {}  # the least recently used first

    def briefs(self) -> list[Brief]:
        """Return every run, the latest first."""
        with reading(self._engine) as session:
            found_rows = session.execute(select(RUNS.c.number, RUNS.c.run)).all()
        rows = [row for row in found_rows if self._only is None or row.run in self._only]
        with self._lock:
            unknown = [row.number for row in rows if row.number not in self._briefs]
            found = {brief.number: brief for brief in self._read(unknown)}
            self._briefs |= {
                number: brief for number, brief in found.items() if brief.state == "finished"
            }
            every = {**self._briefs, **found}
        known = [every[row.number] for row in rows if row.number in every]
        told = [one if one.state == "finished" else self._so_far(one) for one in known]
        return sorted(told, key=lambda one: (-one.started, -one.number))

    def story(self, run: str) -> Story:
        """Return a run by its name.

        Raises:
            StoreError: there is no such run.
        """
        with self._lock:
            kept = self._kept.pop(run, None)
            if kept is None or kept.brief.state != "finished":
                kept = self._told(run, kept)
            self._kept[run] = kept
            self._forget(run)
        return kept

    def find(self, address_of: str) -> Story:
        """Return the run of an address.

        Raises:
            StoreError: there is none.
        """
        with reading(self._engine) as session:
            if session.scalar(select(RUNS.c.run).where(RUNS.c.run == address_of)) is not None:
                return self.story(address_of)
            names = session.scalars(select(RUNS.c.run)).all()
        for name in names:
            if address(name) == address_of:
                return self.story(name)
        raise StoreError(f"no run {one_line(address_of, 80)!r}: the list of runs has all")

    def version(self, run: str) -> str:
        """Return what changes whenever the run does: two look-ups by index, whatever its size."""
        newest = select(func.max(NODES.c.number)).where(NODES.c.run == run).scalar_subquery()
        query = select(RUNS.c.status, RUNS.c.elapsed, RUNS.c.stop_reason, newest).where(
            RUNS.c.run == run
        )
        with reading(self._engine) as session:
            row = session.execute(query).one_or_none()
        if row is None:
            raise StoreError(f"no run {run!r}")
        return f"{row[3] if row[3] is not None else -1}-{row.elapsed!r}-{row.status}-{bool(row.stop_reason)}"

    def _read(self, numbers: Sequence[int]) -> Iterator[Brief]:
        for start in range(0, len(numbers), _PART):
            query = select(RUNS).where(RUNS.c.number.in_(numbers[start : start + _PART]))
            with reading(self._engine) as session:
                rows = session.execute(query).all()
            yield from map(brief_of, rows)

    def _so_far(self, brief: Brief) -> Brief:
        """Return the brief of a run that is not finished with what its candidates say."""
        if brief.state == "broken":
            return brief
        try:
            return self.story(brief.run).brief
        except UNREADABLE:
            return replace(brief, state="broken", stop_reason="its candidates cannot be read")

    def _forget(self, but: str) -> None:
        total = sum(len(story.candidates) for story in self._kept.values())
        for run in list(self._kept):
            if total <= _MOST_KEPT or run == but:
                break
            total -= len(self._kept.pop(run).candidates)

    def _told(self, run: str, before: Story | None) -> Story:
        """Read a run, or what is new of it."""
        version = self.version(run)
        if before is not None and before.version == version:
            return before
        done = before.candidates if before else ()
        first = next((one.number for one in done if one.outcome == "pending"), len(done))
        with reading(self._engine) as session:
            row = session.execute(select(RUNS).where(RUNS.c.run == run)).one_or_none()
            if row is None:
                raise StoreError(f"no run {run!r}")
            query = (
                select(
                    NODES.c.number,
                    NODES.c.step,
                    NODES.c.parent,
                    NODES.c.elapsed,
                    NODES.c.outcome.label("key"),
                    OUTCOMES.c.outcome.label("verdict"),
                    OUTCOMES.c.judged,
                )
                .outerjoin(OUTCOMES, OUTCOMES.c.key == NODES.c.outcome)
                .where((NODES.c.run == run) & (NODES.c.number >= first))
                .order_by(NODES.c.number)
            )
            nodes = session.execute(query).all()
            asked = session.execute(
                select(
                    PROPOSALS.c.slot, PROPOSALS.c.parent, PROPOSALS.c.ideas, PROPOSALS.c.retrieved
                ).where(PROPOSALS.c.run == run)
            ).all()
            calls = session.execute(
                select(CALLS.c.at, CALLS.c.tokens_in, CALLS.c.tokens_out)
                .where(CALLS.c.run == run)
                .order_by(CALLS.c.at)
            ).all()
        sums = accumulate(one.tokens_in + one.tokens_out for one in calls)
        old = before.proposals if before else {}
        story = Story(
            brief=brief_of(row),
            version=version,
            candidates=(*done[:first], *map(_candidate, nodes)),
            proposals={
                slot: old.get(slot) or _proposed(one)
                for one in asked
                for slot in (_slot(one.slot),)
            },
            calls=tuple(zip((one.at for one in calls), sums, strict=True)),
        )
        return story if story.brief.state == "finished" else replace(story, brief=_summed(story))


def brief_of(row: Any) -> Brief:
    """Return a run in short; one whose record makes no sense says so and stops nothing."""
    try:
        return _brief(row)
    except UNREADABLE:
        return Brief(
            number=row.number, run=row.run, address=address(row.run), task="", target="", language="",
            author="", state="broken", stop_reason="its record cannot be read", started=row.started,
            seconds=row.elapsed, candidates=0, outcomes={}, best=None, baselines={}, families=(),
        )  # fmt: skip


def _brief(row: Any) -> Brief:
    about = json.loads(row.about)
    report = json.loads(row.report) if row.report else {}
    return Brief(
        number=row.number,
        run=row.run,
        address=address(row.run),
        task=str(about["task"]),
        target=str(about["target"]),
        language=str(about["language"]),
        author=str(about["author"]),
        state=row.status,
        stop_reason=row.stop_reason or "",
        started=row.started,
        seconds=float(report.get("seconds", row.elapsed)),
        candidates=int(report.get("candidates", 0)),
        outcomes=dict(report.get("outcomes", {})),
        best=_best(report.get("best")),
        baselines={
            name: float(value) for name, value in report.get("baselines", {}).items() if value
        },
        families=tuple(map(str, about.get("work", {}).get("families", ()))),
        timed=bool(report.get("timed", True)),
    )


def _best(told: Mapping[str, Any] | None) -> Best | None:
    if told is None:
        return None
    speedup = {name: Ratio(**one) for name, one in told.get("speedup", {}).items()}
    return Best(
        node=int(told["node"]),
        idea=str(told["idea"]),
        seconds=told.get("seconds"),
        speedup=speedup,
        confirmed=bool(told.get("confirmed")),
    )


def _summed(story: Story) -> Brief:
    """Return what is known so far of a run that is not finished."""
    counts: dict[str, int] = {}
    for one in story.judged:
        counts[one.outcome] = counts.get(one.outcome, 0) + 1
    standing = [one for one in story.judged if one.stands]
    first = max(standing, key=lambda one: (one.merit, -one.number), default=None)
    best = None
    if first is not None:
        best = Best(
            node=first.number,
            idea=story.idea(first).title,
            seconds=first.seconds,
            speedup=first.speedup,
            confirmed=False,
        )
    timed = not any(one.outcome == "checked" for one in story.judged)
    return replace(
        story.brief, candidates=len(story.judged), outcomes=counts, best=best, timed=timed
    )


def _slot(text: str) -> Slot:
    round, parent = map(int, text.split("."))
    return Slot(round, parent)


def _proposed(row: Any) -> Proposed:
    listed = ("passages", "exchanges")
    ideas = (
        Idea(**{**one, **{name: tuple(one[name]) for name in listed}})
        for one in json.loads(row.ideas)
    )
    return Proposed(
        parent=row.parent, ideas=tuple(ideas), retrieved=tuple(json.loads(row.retrieved))
    )


def _candidate(row: Any) -> Candidate:
    step = Step.parse(row.step)
    if row.verdict is None:
        return Candidate(
            number=row.number, parent=row.parent, step=step, outcome="pending", speedup={}
        )
    told = json.loads(row.verdict)
    kind = told["kind"]
    speedup = {name: Ratio(**one) for name, one in told.get("speedup", {}).items()}
    return Candidate(
        number=row.number,
        parent=row.parent,
        step=step,
        outcome=kind,
        reason=one_line(told.get("reason", ""), 300),
        seconds=told["seconds"] if kind == "passed" else None,
        speedup=speedup,
        merit=_merit(told, speedup),
        own_share=told.get("own_share"),
        drifted=bool(told.get("profile", {}).get("drifted")),
        at=row.judged,
        second=row.elapsed,
        measured=row.key,
    )


def _merit(told: Mapping[str, Any], speedup: Mapping[str, Ratio]) -> float:
    if told["kind"] == "passed":
        shown = Passed(
            seconds=told["seconds"], samples=0, speedup=speedup, max_error=0.0, allowed_error=0.0
        )
        return shown.merit
    if told["kind"] == "checked":
        from search.outcome import from_json

        return float(getattr(from_json(json.dumps(told)), "merit", 0.0))
    return 0.0


def finite(value: float | None) -> bool:
    """Say whether a number can be drawn."""
    return value is not None and math.isfinite(value)
