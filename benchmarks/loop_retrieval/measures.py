"""What one answer was worth to an author, with bootstrap intervals over tasks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

DEPTH = 12  # places that nDCG looks at
CENTRAL = 3
RESAMPLES = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """How one answer did.

    Attributes:
        ndcg: discounted gain 2^grade - 1 of the first twelve documents, over that of the ideal order.
        central: share of the central documents that were given, at any place; 1 where none is.
        useless: share of what was given that has no grade; 0 where nothing was given.
        nothing: 1 where central documents exist and none was given.
        given: documents.
        tokens: of what was given.
        menu: share of the central documents whose titles stood in the menu or that were given.
    """

    ndcg: float
    central: float
    useless: float
    nothing: float
    given: float
    tokens: float
    menu: float


def mark(
    given: Sequence[str], grades: Mapping[str, int], tokens: int, listed: Sequence[str] = ()
) -> Marks:
    """Return what an answer was worth; a document that comes twice counts once, and as useless then."""
    seen: set[str] = set()
    gains: list[int] = []
    for name in given:
        gains.append(0 if name in seen else grades.get(name, 0))
        seen.add(name)
    central = {name for name, grade in grades.items() if grade == CENTRAL}
    met = central & seen
    ideal = _discounted(sorted(grades.values(), reverse=True))
    return Marks(
        ndcg=_discounted(gains) / ideal if ideal else 1.0,
        central=len(met) / len(central) if central else 1.0,
        useless=gains.count(0) / len(gains) if gains else 0.0,
        nothing=float(bool(central) and not met),
        given=float(len(given)),
        tokens=float(tokens),
        menu=len(central & (seen | set(listed))) / len(central) if central else 1.0,
    )


def _discounted(grades: Sequence[int]) -> float:
    return sum((2**one - 1) / math.log2(place + 2) for place, one in enumerate(grades[:DEPTH]))


def interval(
    tasks: Sequence[str], values: Sequence[float], statistic: Callable[..., np.ndarray] = np.mean
) -> tuple[float, float, float]:
    """Return a mean with its 95 % interval: whole tasks are drawn, since their cases are alike."""
    names = sorted(set(tasks))
    groups = [[v for t, v in zip(tasks, values, strict=True) if t == name] for name in names]
    sums = np.array([sum(group) for group in groups])
    counts = np.array([len(group) for group in groups])
    drawn = np.random.default_rng(0).integers(0, len(names), (RESAMPLES, len(names)))
    means = sums[drawn].sum(1) / counts[drawn].sum(1)
    low, high = np.percentile(means, [2.5, 97.5])
    return float(statistic(values)), float(low), float(high)
