"""nDCG, recall and reciprocal rank over graded answers, with bootstrap intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from benchmarks.retrieval.questions import EXACT, GOOD, Question
from kb.records.types import Passage

DEPTH = 10  # passages of a ranking that are looked at
RESAMPLES = 10_000
MEASURES = ("ndcg", "recall", "mrr", "found", "good_recall")
HEADINGS = {
    "ndcg": "nDCG@10",
    "recall": "recall@5",
    "mrr": "MRR",
    "found": "found@5",
    "good_recall": "recall@5, good too",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """How one ranking did on one question.

    Attributes:
        ndcg: discounted gain 2^grade - 1 of the first ten, over that of the ideal ranking.
        recall: share of the exact answers (at most five) among the first five.
        mrr: one over the place of the first exact or good answer, 0 beyond the tenth.
        found: 1 where an exact answer is among the first five, else 0.
        good_recall: as `recall`, over exact and good answers.
    """

    ndcg: float
    recall: float
    mrr: float
    found: float
    good_recall: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A mean with its 95 % percentile bootstrap interval over questions."""

    mean: float
    low: float
    high: float


def grades(question: Question, ranking: Sequence[Passage]) -> list[int]:
    """Return the grade of each passage; 0 for what answers nothing, or nothing new.

    Each answer counts once: a second passage that says the same adds nothing to what the reader
    learns, and a ranking cannot gain by repeating itself.
    """
    left = list(question.graded())
    found = []
    for passage in ranking[:DEPTH]:
        place = next((n for n, (_, one) in enumerate(left) if one.matches(passage)), None)
        found.append(0 if place is None else left.pop(place)[0])
    return found


def mark(question: Question, ranking: Sequence[Passage]) -> Marks:
    """Measure one ranking."""
    found = grades(question, ranking)
    wanted = [grade for grade, _ in question.graded()]
    first = next((place for place, grade in enumerate(found, 1) if grade >= GOOD), None)
    return Marks(
        ndcg=_gain(found) / _gain(wanted[:DEPTH]),
        recall=_recall(found, wanted, EXACT),
        mrr=0.0 if first is None else 1.0 / first,
        found=float(EXACT in found[:5]),
        good_recall=_recall(found, wanted, GOOD),
    )


def intervals(marks: Sequence[Marks]) -> dict[str, Interval]:
    """Return mean and interval of every measure."""
    table = _table(marks)
    return _intervals(table)


def differences(one: Sequence[Marks], other: Sequence[Marks]) -> dict[str, Interval]:
    """Return by how much `one` is better than `other`, paired by question."""
    return _intervals(_table(one) - _table(other))


def _gain(found: Sequence[int]) -> float:
    return sum((2**grade - 1) / math.log2(place + 1) for place, grade in enumerate(found, 1))


def _recall(found: Sequence[int], wanted: Sequence[int], least: int) -> float:
    return sum(grade >= least for grade in found[:5]) / min(5, sum(g >= least for g in wanted))


def _table(marks: Sequence[Marks]) -> np.ndarray:
    rows: list[Mapping[str, float]] = [asdict(one) for one in marks]
    return np.array([[row[name] for name in MEASURES] for row in rows]).reshape(-1, len(MEASURES))


def _intervals(table: np.ndarray) -> dict[str, Interval]:
    if not len(table):
        nothing = Interval(mean=math.nan, low=math.nan, high=math.nan)
        return dict.fromkeys(MEASURES, nothing)
    rng = np.random.default_rng(0)
    count = len(table)
    # Weights of a resample are multinomial: one product instead of ten thousand gathers.
    weights = rng.multinomial(count, np.full(count, 1.0 / count), RESAMPLES) / count
    low, high = np.percentile(weights @ table, (2.5, 97.5), axis=0)
    mean = table.mean(axis=0)
    return {
        name: Interval(mean=float(mean[n]), low=float(low[n]), high=float(high[n]))
        for n, name in enumerate(MEASURES)
    }
