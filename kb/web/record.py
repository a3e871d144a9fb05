"""From rows of the record to runs in short, many at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, groupby
from typing import Any

from sqlalchemy import Engine, func, select

from kb.database import reading
from kb.web.story import UNREADABLE, Best, Brief, Candidate, Proposed, Story
from kb.web.text import address, one_line
from search.attempt import Idea
from search.graph import Slot, Step
from search.outcome import Passed, Ratio, from_json, to_json
from search.runs.calls import CALLS
from search.runs.report import baseline_seconds, reported
from search.runs.tables import NODES, OUTCOMES, PROPOSALS, RUNS

# Says what a run is, by its name and what its record says: a process may have been killed.
State = Callable[[str, str], str]
PART = 400  # parameters of one statement
_RUNS = 25  # that are read at once, with all their candidates
_NODE = (
    NODES.c.run,
    NODES.c.number,
    NODES.c.step,
    NODES.c.parent,
    NODES.c.elapsed,
    NODES.c.outcome.label("key"),
    OUTCOMES.c.outcome.label("verdict"),
    OUTCOMES.c.judged,
)


def read_briefs(engine: Engine, numbers: Sequence[int], state: State) -> Iterator[Brief]:
    """Yield runs in short by their numbers; of those that are not finished, as they began."""
    for start in range(0, len(numbers), PART):
        query = select(RUNS).where(RUNS.c.number.in_(numbers[start : start + PART]))
        with reading(engine) as session:
            rows = session.execute(query).all()
        yield from (brief_of(row, state(row.run, row.status)) for row in rows)


def read_version(engine: Engine, run: str, state: State) -> str | None:
    """Return what changes whenever a run does, None where there is no such run.

    It costs two look-ups by index, whatever the size of the run.
    """
    newest = select(func.max(NODES.c.number)).where(NODES.c.run == run).scalar_subquery()
    query = select(RUNS.c.status, RUNS.c.elapsed, RUNS.c.stop_reason, newest.label("newest")).where(
        RUNS.c.run == run
    )
    with reading(engine) as session:
        row = session.execute(query).one_or_none()
    return None if row is None else _version(row, row.newest, state(run, row.status))


def read_stories(engine: Engine, runs: Sequence[str], state: State) -> Iterator[Story]:
    """Yield whole runs; those that cannot be read are left out."""
    for start in range(0, len(runs), _RUNS):
        names = runs[start : start + _RUNS]
        with reading(engine) as session:
            about = session.execute(select(RUNS).where(RUNS.c.run.in_(names))).all()
            nodes = session.execute(
                select(*_NODE)
                .outerjoin(OUTCOMES, OUTCOMES.c.key == NODES.c.outcome)
                .where(NODES.c.run.in_(names))
                .order_by(NODES.c.run, NODES.c.number)
            ).all()
            asked = session.execute(select(PROPOSALS).where(PROPOSALS.c.run.in_(names))).all()
            calls = session.execute(
                select(CALLS.c.run, CALLS.c.at, CALLS.c.tokens_in, CALLS.c.tokens_out)
                .where(CALLS.c.run.in_(names))
                .order_by(CALLS.c.run, CALLS.c.at)
            ).all()
        parts = tuple(_by_run(rows) for rows in (nodes, asked, calls))
        for row in about:
            try:
                found = (part.get(row.run, ()) for part in parts)
                yield _story(row, state(row.run, row.status), *found)
            except UNREADABLE:
                continue


def read_more(engine: Engine, before: Story, version: str, state: State) -> Story:
    """Return a run that was read before with what is new of it: what had an outcome is not read again."""
    run, done = before.brief.run, before.candidates
    first = next((one.number for one in done if one.outcome == "pending"), len(done))
    with reading(engine) as session:
        row = session.execute(select(RUNS).where(RUNS.c.run == run)).one()
        nodes = session.execute(
            select(*_NODE)
            .outerjoin(OUTCOMES, OUTCOMES.c.key == NODES.c.outcome)
            .where((NODES.c.run == run) & (NODES.c.number >= first))
            .order_by(NODES.c.number)
        ).all()
        slots = session.scalars(select(PROPOSALS.c.slot).where(PROPOSALS.c.run == run)).all()
        known = {f"{slot.round}.{slot.parent}" for slot in before.proposals}
        news = [slot for slot in slots if slot not in known]
        asked = session.execute(
            select(PROPOSALS).where(PROPOSALS.c.run == run, PROPOSALS.c.slot.in_(news))
        ).all()
        calls = session.execute(
            select(CALLS.c.at, CALLS.c.tokens_in, CALLS.c.tokens_out)
            .where(CALLS.c.run == run)
            .order_by(CALLS.c.at)
        ).all()
    story = replace(
        _story(row, state(run, row.status), nodes, asked, calls, summed=False),
        version=version,
        candidates=_seen_again(row, (*done[:first], *map(_candidate, nodes))),
    )
    return _settled(replace(story, proposals={**before.proposals, **story.proposals}))


def _by_run(rows: Sequence[Any]) -> dict[str, list[Any]]:
    ordered = sorted(rows, key=lambda row: str(row.run))
    return {run: list(mine) for run, mine in groupby(ordered, key=lambda row: str(row.run))}


def _story(
    row: Any,
    state: str,
    nodes: Sequence[Any],
    asked: Sequence[Any],
    calls: Sequence[Any],
    *,
    summed: bool = True,
) -> Story:
    sums = accumulate(one.tokens_in + one.tokens_out for one in calls)
    story = Story(
        brief=brief_of(row, state),
        version=_version(row, nodes[-1].number if nodes else None, state),
        candidates=_seen_again(row, tuple(map(_candidate, nodes))),
        proposals={_slot(one.slot): _proposed(one) for one in asked},
        calls=tuple(zip((one.at for one in calls), sums, strict=True)),
    )
    return _settled(story) if summed else story


def _settled(story: Story) -> Story:
    """Return a run whose brief says what is known so far, where it is not finished."""
    return story if story.brief.state == "finished" else replace(story, brief=_summed(story))


def _version(row: Any, newest: int | None, state: str) -> str:
    return f"{-1 if newest is None else newest}-{row.elapsed!r}-{state}-{bool(row.stop_reason)}"


def brief_of(row: Any, state: str) -> Brief:
    """Return a run in short; one whose record makes no sense says so and stops nothing."""
    try:
        return _brief(row, state)
    except UNREADABLE:
        return Brief(
            number=row.number, run=row.run, address=address(row.run), task="", target="", language="",
            author="", state="broken", stop_reason="its record cannot be read", started=row.started,
            seconds=row.elapsed, candidates=0, outcomes={}, best=None, baselines={}, families=(),
        )  # fmt: skip


def _brief(row: Any, state: str) -> Brief:
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
        state=state,
        stop_reason=row.stop_reason or "",
        started=row.started,
        seconds=float(report.get("seconds", row.elapsed)),
        candidates=int(report.get("candidates", 0)),
        outcomes=dict(report.get("outcomes", {})),
        best=_best(report.get("best")),
        baselines={name: float(value) for name, value in baseline_seconds(report).items() if value},
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
    return Candidate(
        number=row.number,
        parent=row.parent,
        step=step,
        at=row.judged,
        second=row.elapsed,
        measured=row.key,
        **_verdict(json.loads(row.verdict)),
    )


def _verdict(told: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an outcome says of a candidate."""
    kind = told["kind"]
    speedup = {name: Ratio(**one) for name, one in told.get("speedup", {}).items()}
    return {
        "outcome": kind,
        "reason": one_line(told.get("reason", ""), 300),
        "seconds": told["seconds"] if kind == "passed" else None,
        "speedup": speedup,
        "merit": _merit(told, speedup),
        "own_share": told.get("own_share"),
        "drifted": bool(told.get("profile", {}).get("drifted")),
        "unseen": "seen" in told.get("profile", {}),
    }


def _seen_again(row: Any, candidates: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
    """Return a run's candidates with what the second look said in the place of the first verdict."""
    second = reported(json.loads(row.report)) if row.report else {}
    return tuple(
        replace(one, **_verdict(json.loads(to_json(second[one.number]))))
        if one.number in second
        else one
        for one in candidates
    )


def _merit(told: Mapping[str, Any], speedup: Mapping[str, Ratio]) -> float:
    """Return what the search ranks a candidate by."""
    if told["kind"] == "passed":
        shown = Passed(
            seconds=told["seconds"], samples=0, speedup=speedup, max_error=0.0, allowed_error=0.0,
            workloads=told.get("workloads", {}),
        )  # fmt: skip
        return shown.merit
    if told["kind"] == "checked":
        return float(getattr(from_json(json.dumps(told)), "merit", 0.0))
    return 0.0
