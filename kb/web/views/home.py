"""The list of runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from kb.web.sources import Query, Sources
from kb.web.story import Brief, Story

ROWS = 50  # of one page
POINTS = 48  # of a spark line
_VALUES, _LONGEST = 40, 80  # names of a filter, and characters of one


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLine:
    """A run of the list.

    Attributes:
        spark: the best speed-up over eager so far, at even steps through the candidates.
        latest: when something was last judged, seconds since the epoch.
    """

    run: Brief
    spark: tuple[float, ...]
    latest: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """What the list is narrowed to; "" leaves a filter out."""

    text: str = ""
    state: str = ""
    target: str = ""
    author: str = ""
    sort: str = "started"


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeView:
    """The runs that are asked for.

    Attributes:
        page: of `pages`, the first one is 1.
        live: some run goes on, so that the page should be looked at again.
    """

    rows: tuple[RunLine, ...]
    total: int
    matching: int
    page: int
    pages: int
    filters: Filters
    states: tuple[str, ...]
    targets: tuple[str, ...]
    authors: tuple[str, ...]
    live: bool


def _speedup(run: Brief) -> float:
    best = run.best.speedup.get("eager") if run.best else None
    return best.ratio if best else 0.0


SORTS: dict[str, Callable[[Brief], Any]] = {
    "started": lambda run: -run.started,
    "speedup": lambda run: -_speedup(run),
    "candidates": lambda run: -run.candidates,
    "seconds": lambda run: -run.seconds,
    "run": lambda run: run.run,
    "task": lambda run: (run.task, run.target),
}


def home(sources: Sources, query: Query, rows: int | None = ROWS) -> HomeView:
    """Return the runs that a query asks for, `rows` of them."""
    every = sources.stories.briefs()
    filters = Filters(
        text=query.get("q", ""),
        state=query.get("state", ""),
        target=query.get("target", ""),
        author=query.get("author", ""),
        sort=query["sort"] if query.get("sort") in SORTS else "started",
    )
    found = sorted((run for run in every if _admits(filters, run)), key=SORTS[filters.sort])
    page, pages, shown = paged(found, query, rows)
    stories = sources.stories.several([run.run for run in shown if run.state != "broken"])
    return HomeView(
        rows=tuple(_row(run, stories.get(run.run)) for run in shown),
        total=len(every),
        matching=len(found),
        page=page,
        pages=pages,
        filters=filters,
        states=values_of(run.state for run in every),
        targets=values_of(run.target for run in every),
        authors=values_of(run.author for run in every),
        live=any(run.state == "running" for run in shown),
    )


def paged(found: Sequence[Any], query: Query, rows: int | None) -> tuple[int, int, Sequence[Any]]:
    """Return the number of the page that is asked for, how many there are, and what is on it."""
    page, pages = page_of(query, len(found), rows)
    if rows is None:
        return page, pages, found
    return page, pages, found[(page - 1) * rows : page * rows]


def page_of(query: Query, matching: int, rows: int | None) -> tuple[int, int]:
    """Return the number of the page that is asked for, and how many there are."""
    if not rows:
        return 1, 1
    pages = max(1, -(-matching // rows))
    asked = query.get("page", "1")
    return min(max(int(asked) if asked.isdecimal() and len(asked) < 9 else 1, 1), pages), pages


def spark(story: Story, points: int = POINTS) -> tuple[float, ...]:
    """Return the best speed-up over eager so far, at most `points` values."""
    best, values = 0.0, []
    for one in story.judged:
        ratio = one.ratio()
        best = max(best, ratio.ratio if ratio else 0.0)
        values.append(best)
    if len(values) <= points:
        return tuple(values)
    return tuple(values[round(step * (len(values) - 1) / (points - 1))] for step in range(points))


def _row(run: Brief, story: Story | None) -> RunLine:
    if story is None:
        return RunLine(run=run, spark=(), latest=None)
    latest = max((one.at for one in story.judged if one.at is not None), default=None)
    return RunLine(run=run, spark=spark(story), latest=latest)


def _admits(filters: Filters, run: Brief) -> bool:
    words = filters.text.lower().split()
    told = " ".join(
        (run.run, run.task, run.target, run.author, run.language, run.state,
         *run.families, run.best.idea if run.best else "")
    ).lower()  # fmt: skip
    return (
        all(word in told for word in words)
        and filters.state in ("", run.state)
        and filters.target in ("", run.target)
        and filters.author in ("", run.author)
    )


def values_of(found: Iterable[str]) -> tuple[str, ...]:
    """Return what a list may be narrowed to, the most frequent first; names that are too long are none."""
    counted = Counter(found).most_common(_VALUES)
    return tuple(name for name, _ in counted if 0 < len(name) <= _LONGEST)
