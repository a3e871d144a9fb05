"""Suites of problems: the list of them, and one with its figures, plots and problems."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kb.app.bench.figures import SuiteFigures, curve, figures
from kb.app.bench.record import SuiteRecord, SuiteRecords
from kb.app.bench.rows import BASELINES, SuiteRow
from kb.web.sources import NotFound, Query, Sources
from kb.web.text import address
from search.outcome import Ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class BarRow:
    """What is drawn of a problem.

    Attributes:
        told: why there is nothing to draw, "" where there is.
    """

    name: str
    speedup: Ratio | None
    share: float | None
    told: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteLine:
    """A suite of the list.

    Attributes:
        open: problems that were begun and have not ended.
    """

    suite: str
    address: str
    about: Mapping[str, Any]
    started: float
    figures: SuiteFigures
    open: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SuitesView:
    """All suites, the latest first."""

    rows: tuple[SuiteLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A problem with the address of its run, "" where it has none on record."""

    row: SuiteRow
    run: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteView:
    """One suite.

    Attributes:
        curves: of fast_p, by baseline.
        bars: of each problem, by baseline.
        causes: why problems are not solved, with how many.
    """

    line: SuiteLine
    rows: tuple[Shown, ...]
    curves: Mapping[str, list[tuple[float, float]]]
    bars: Mapping[str, list[BarRow]]
    causes: tuple[tuple[str, int], ...]


def suites(sources: Sources, _query: Query) -> SuitesView:
    """Return all suites."""
    records = _records(sources)
    found = [records.suite(name) for name in reversed(records.names())]
    return SuitesView(rows=tuple(_line(one) for one in found))


def suite(sources: Sources, place: str) -> SuiteView:
    """Return one suite.

    Args:
        place: its address.

    Raises:
        NotFound: there is none.
    """
    records = _records(sources)
    name = next((one for one in records.names() if address(one) == place), None)
    if name is None:
        raise NotFound(f"there is no suite {place!r}: the list has all")
    found = records.suite(name)
    known = {brief.run: brief.address for brief in sources.stories.briefs()}
    missing = [row for row in found.rows if row.status in ("unsolved", "not_judged")]
    return SuiteView(
        line=_line(found),
        rows=tuple(Shown(row=row, run=known.get(row.run or "", "")) for row in found.rows),
        curves={name: curve(found.rows, name) for name in baselines_of(found)},
        bars={name: bars_of(found, name) for name in baselines_of(found)},
        causes=tuple(Counter(row.reason for row in missing).most_common()),
    )


def places(sources: Sources) -> list[dict[str, str]]:
    """Return the addresses of all suites."""
    return [{"suite": address(name)} for name in _records(sources).names()]


def _records(sources: Sources) -> SuiteRecords:
    return SuiteRecords(sources.reader, makes_tables=False)


def _line(found: SuiteRecord) -> SuiteLine:
    return SuiteLine(
        suite=found.suite,
        address=address(found.suite),
        about=found.about,
        started=found.started,
        figures=figures(found.rows),
        open=found.open,
    )


def baselines_of(found: SuiteRecord) -> tuple[str, ...]:
    """Return the baselines that rows of a suite have, the usual ones first."""
    named = {name for row in found.rows for name in row.speedup}
    return (*(name for name in BASELINES if name in named), *sorted(named - set(BASELINES)))


def bars_of(found: SuiteRecord, baseline: str) -> list[BarRow]:
    """Return what is drawn of each problem over a baseline; one that is degenerate is none, as in the figures."""
    return [
        BarRow(
            name=row.problem,
            speedup=row.speedup.get(baseline),
            share=row.roofline if row.status == "solved" else None,
            told=row.reason or "this baseline could not run",
        )
        for row in found.rows
        if not row.degenerate
    ]
