"""One run: how its best went on, its tree, its candidates, and what it cost and taught."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sqlalchemy import select

from kb.database import reading
from kb.web.sources import Query, Sources
from kb.web.story import Brief, Candidate, Story
from kb.web.views.home import paged
from kb.web.views.tree import Tree, tree_of
from search.outcome import OUTCOME_KINDS, Ratio

ROWS = 100  # candidates of one page
AT_ONCE = 1_000  # candidates up to which the tree comes with its page


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A judged candidate on the axes of a run's plot.

    Attributes:
        place: 1 for the first that was judged.
        second: since the run began.
        tokens: that models had read and written by then.
    """

    number: int
    place: int
    second: float
    tokens: int
    outcome: str
    speedup: Mapping[str, Ratio]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stride:
    """A node on the way to the best.

    Attributes:
        gain: of its speed over that of the node before it, over eager for the first one; None
            where one of them did not pass.
    """

    number: int
    idea: str
    outcome: str
    ratio: Ratio | None
    gain: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateLine:
    """A candidate of the table."""

    one: Candidate
    idea: str
    record: str | None
    round: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateTable:
    """The candidates that are asked for."""

    rows: tuple[CandidateLine, ...]
    total: int
    matching: int
    page: int
    pages: int
    outcome: str
    text: str
    sort: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one model cost a run in one role; `cost` is None where nobody knows the price."""

    model: str
    role: str
    calls: int
    tokens_in: int
    tokens_out: int
    cached: int
    cost: float | None
    seconds: float
    paid: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """A lesson with evidence of a run."""

    number: int | None
    name: str
    title: str
    effect: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """Everything about a run that its page shows.

    Attributes:
        outcomes: counts by kind, in the order of `search.outcome.OUTCOME_KINDS`.
        settings: what the task says, as plain lines of name and value.
        source: of the reference.
        tree: None where it is large, so that its page loads it after the rest.
        version: changes when the run does.
        others: runs of the same task, to compare with, the latest first.
    """

    run: Brief
    version: str
    points: tuple[Point, ...]
    path: tuple[Stride, ...]
    table: CandidateTable
    outcomes: Mapping[str, int]
    pending: int
    costs: tuple[Cost, ...]
    learned: tuple[Learned, ...]
    settings: tuple[tuple[str, str], ...]
    source: str
    tree: Tree | None
    others: tuple[Brief, ...]
    latest: float | None


def run(
    sources: Sources, address: str, query: Query, rows: int | None = ROWS, *, drawn: bool = True
) -> RunView:
    """Return a run by its address.

    Args:
        rows: candidates of a page; None for all on one.
        drawn: False leaves the tree out.

    Raises:
        StoreError: there is none.
    """
    story = sources.stories.find(address)
    about = read_about(sources, story.brief.run)
    counts = _counts(story)
    return RunView(
        run=story.brief,
        version=story.version,
        points=points(story),
        path=strides(story),
        table=table(story, query, rows),
        outcomes={kind: counts[kind] for kind in OUTCOME_KINDS if counts.get(kind)},
        pending=counts.get("pending", 0),
        costs=costs(sources, story.brief.run),
        learned=_learned(sources, story.brief.run),
        settings=tuple(_settings(about)),
        source=str(about.get("source", "")),
        tree=tree_of(story) if drawn and len(story.candidates) <= AT_ONCE else None,
        others=_others(sources, story.brief),
        latest=max((one.at for one in story.judged if one.at is not None), default=None),
    )


@lru_cache(maxsize=16)  # a story is never changed, but replaced by a newer one
def points(story: Story) -> tuple[Point, ...]:
    """Return the judged candidates of a run on the axes of its plot."""
    found = zip(story.judged, story.seconds(), story.tokens(), strict=True)
    return tuple(
        Point(
            number=one.number,
            place=place,
            second=second,
            tokens=tokens,
            outcome=one.outcome,
            speedup=one.speedup,
        )
        for place, (one, second, tokens) in enumerate(found, start=1)
    )


def strides(story: Story) -> tuple[Stride, ...]:
    """Return the nodes on the way to the best, the first one first."""
    if story.best_number is None:
        return ()
    found, before = [], 1.0
    for one in story.path(story.best_number):
        ratio = one.ratio()
        found.append(
            Stride(
                number=one.number,
                idea=story.idea(one).title,
                outcome=one.outcome,
                ratio=ratio,
                gain=ratio.ratio / before if ratio and before else None,
            )
        )
        before = ratio.ratio if ratio else before
    return tuple(found)


def table(story: Story, query: Query, rows: int | None = ROWS) -> CandidateTable:
    """Return the candidates that a query asks for."""
    outcome, text = query.get("outcome", ""), query.get("q", "")
    sort = query.get("sort", "number")
    words = text.lower().split()
    found = [
        one for one in story.candidates if outcome in ("", one.outcome) and _says(story, one, words)
    ]
    if sort == "speedup":
        found.sort(key=lambda one: (-one.merit, one.number))
    elif sort == "latest":
        found.reverse()
    page, pages, shown = paged(found, query, rows)
    return CandidateTable(
        rows=tuple(_row(story, one) for one in shown),
        total=len(story.candidates),
        matching=len(found),
        page=page,
        pages=pages,
        outcome=outcome,
        text=text,
        sort=sort,
    )


def _row(story: Story, one: Candidate) -> CandidateLine:
    idea = story.idea(one)
    return CandidateLine(one=one, idea=idea.title, record=idea.record, round=one.step.slot.round)


def _says(story: Story, one: Candidate, words: Sequence[str]) -> bool:
    if not words:
        return True
    idea = story.idea(one)
    told = f"{idea.title} {idea.record or ''} {idea.category} {one.reason}".lower()
    return all(word in told for word in words)


def _counts(story: Story) -> dict[str, int]:
    counts: dict[str, int] = {}
    for one in story.candidates:
        counts[one.outcome] = counts.get(one.outcome, 0) + 1
    return counts


def read_about(sources: Sources, run: str) -> dict[str, Any]:
    """Return what a run's record keeps of what was known when it began."""
    from search.runs.tables import RUNS

    with reading(sources.reader) as session:
        text = session.scalar(select(RUNS.c.about).where(RUNS.c.run == run))
    found = json.loads(text or "{}")
    return found if isinstance(found, dict) else {}


def _settings(about: Mapping[str, Any]) -> list[tuple[str, str]]:
    settings = about.get("settings") or {}
    found = [
        (name, _plain(settings[name]))
        for name in ("precision", "library", "packing", "retrieval", "profile")
        if name in settings
    ]
    for part in ("search", "stop"):
        told = settings.get(part) or {}
        values = ", ".join(f"{name} {_plain(one)}" for name, one in told.items() if one is not None)
        found.append((part, values))
    model = settings.get("model") or {}
    if model.get("name"):
        found.append(("model", f"{model['name']} ({model.get('provider', '')})"))
    return [(name, value) for name, value in found if value]


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return value if isinstance(value, str) else json.dumps(value)


def costs(sources: Sources, run: str) -> tuple[Cost, ...]:
    """Return what each model cost a run in each role."""
    from search.runs.spending import spending

    return tuple(
        Cost(
            model=row["model"],
            role=row["role"],
            calls=row["calls"],
            tokens_in=row["tokens_in"],
            tokens_out=row["tokens_out"],
            cached=row["cached"] or 0,
            cost=row["cost"],
            seconds=row["seconds"],
            paid=bool(row["paid"]),
        )
        for row in spending(sources.reader, run)
    )


def _learned(sources: Sources, run: str) -> tuple[Learned, ...]:
    from kb.retrieval.lesson_confidence import effect_of
    from kb.store.tables import DocumentRow, document_value

    named = DocumentRow.record.contains(json.dumps(run), autoescape=True)
    with reading(sources.reader) as session:
        rows = session.scalars(select(DocumentRow).where(DocumentRow.kind == "lesson", named))
        found = [document_value(row) for row in rows]
    return tuple(
        Learned(
            number=one.record.number,
            name=one.name,
            title=one.record.title,
            effect=effect_of(one.record),
        )
        for one in found
        if one.record.kind == "lesson" and any(told.run == run for told in one.record.evidence)
    )


def _others(sources: Sources, run: Brief) -> tuple[Brief, ...]:
    same = (one for one in sources.stories.briefs() if one.task == run.task and one.run != run.run)
    return tuple(same)[:20]
