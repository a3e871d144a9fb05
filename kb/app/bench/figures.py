"""Figures of a suite: how many are solved, fast_p, geometric means.

fast_p as KernelBench defines it (Ouyang et al. 2025, section 3): the share of all problems that are solved
with a speed-up greater than p.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kb.app.bench.rows import BASELINES, SuiteRow

THRESHOLDS = (0.0, 1.0, 1.5, 2.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Against:
    """The figures over one baseline.

    Attributes:
        of: problems that they are of: all but those solved without this baseline.
        without: problems that are solved, and where this baseline could not run.
        fast: share of `of` whose speed-up is greater than p, by p.
        solved: geometric mean of the speed-ups of the solved, None where there is none.
        number: how many those are.
        whole: geometric mean over `of`, what is not solved counted as 1.0.
    """

    baseline: str
    of: int
    without: int
    fast: dict[str, float]
    solved: float | None
    number: int
    whole: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteFigures:
    """Counts of a suite, and its figures over each baseline.

    Attributes:
        problems: that have ended; figures are of these.
        judged: of which the judge began; the rest is listed with reasons.
        solved: of which a candidate passed, and again at the end.
        degenerate: problems whose answer is always the same; all other figures leave them out.
        checked: compiled for a device that is not here; not among the solved.
        roofline: median share of the attainable rate of the solved, None where it is not known.
    """

    problems: int
    judged: int
    solved: int
    checked: int
    roofline: float | None
    against: tuple[Against, ...]
    degenerate: int = 0


def figures(rows: Sequence[SuiteRow]) -> SuiteFigures:
    """Return the figures of a suite's rows."""
    constant = [row for row in rows if row.degenerate]
    rows = [row for row in rows if not row.degenerate]
    shares = [row.roofline for row in rows if row.status == "solved" and row.roofline]
    named = {name for row in rows for name in row.speedup}
    others = sorted(named - set(BASELINES))
    return SuiteFigures(
        problems=len(rows),
        judged=sum(row.status != "not_judged" for row in rows),
        solved=sum(row.status == "solved" for row in rows),
        checked=sum(row.status == "checked" for row in rows),
        roofline=statistics.median(shares) if shares else None,
        against=tuple(against(rows, name) for name in (*BASELINES, *others)),
        degenerate=len(constant),
    )


def against(rows: Sequence[SuiteRow], baseline: str) -> Against:
    """Return the figures over one baseline."""
    of, ratios = speeds(rows, baseline)
    return Against(
        baseline=baseline,
        of=of,
        without=sum(not row.degenerate for row in rows) - of,
        fast={f"{p:g}": sum(ratio > p for ratio in ratios) / of if of else 0.0 for p in THRESHOLDS},
        solved=geometric_mean(ratios),
        number=len(ratios),
        whole=geometric_mean([*ratios, *[1.0] * (of - len(ratios))]),
    )


def speeds(rows: Sequence[SuiteRow], baseline: str) -> tuple[int, list[float]]:
    """Return how many problems count over a baseline, and the speed-ups of those solved."""
    rows = [row for row in rows if not row.degenerate]
    without = sum(row.status == "solved" and row.ratio(baseline) is None for row in rows)
    ratios = [ratio for row in rows if (ratio := row.ratio(baseline)) is not None]
    return len(rows) - without, ratios


def curve(rows: Sequence[SuiteRow], baseline: str) -> list[tuple[float, float]]:
    """Return where the curve of fast_p begins and falls: 0 and speed-ups in order, and the share that is faster."""
    of, ratios = speeds(rows, baseline)
    ordered = [0.0, *sorted(ratios)] if ratios else []
    return [(ratio, (len(ratios) - place) / of) for place, ratio in enumerate(ordered)]


def geometric_mean(values: Iterable[float]) -> float | None:
    """Return the geometric mean of positive values, None where there are none."""
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs)) if logs else None
