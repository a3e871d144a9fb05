"""How likely a document is central, helps, or is of any use: logistic regressions, fitted to graded cases.

What questions give a document and what graded tasks expect of it are on scales of their own.
`benchmarks/loop_retrieval/fit.py` fits what both together mean, on tasks that are asked about as new ones.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import sqrt
from pathlib import Path

import numpy as np

from kb.config import shipped_docs
from kb.records.types import Kind

FILE = Path("graded") / "odds.json"
GRADES = (3, 2, 1)  # central, helps, related: each row of weights is for this grade or a better one
WORTH = (
    4 / 7,
    2 / 7,
    1 / 7,
)  # what each grade adds, so that the gain is 2^grade - 1 over that of the highest
_WORDS = 20.0  # a high BM25 score
_BOUND = 30.0  # of log odds, for exp


@dataclass(frozen=True, slots=True, kw_only=True)
class Signs:
    """What is known of a document.

    Attributes:
        asked: what the questions give it.
        gain, useful: what graded tasks expect of it, 0 where they expect nothing.
        judged: graded tasks could speak of it.
        cosine, bm25: of its best passage to any question, 0 where none was found.
        answers: symptoms at hand that it answers.
        tried: the search has tried it.
    """

    kind: Kind
    asked: float
    gain: float
    useful: float
    judged: bool
    cosine: float
    bm25: float
    answers: int
    tried: bool

    def features(self) -> tuple[float, ...]:
        """Return the numbers that weights belong to, 1 for the constant as the last."""
        return (
            self.asked,
            sqrt(self.asked),
            self.gain,
            self.useful,
            sqrt(self.gain),
            self.asked * self.gain,
            self.asked * self.useful,
            self.cosine,
            self.bm25 / _WORDS,
            float(self.answers),
            float(self.tried),
            float(self.kind == "guide"),
            float(self.kind == "kernel"),
            1.0,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Likelihood:
    """How likely a document has a grade or a better one.

    Attributes:
        worth: expected gain: 1 where it is surely central, 0 where it is surely useless.
    """

    central: float
    useful: float
    worth: float


def likelihoods(signs: Sequence[Signs], stage: str) -> list[Likelihood]:
    """Return how likely documents are of use for a stage: ``ideas``, ``draft`` or ``repair``."""
    if not signs:
        return []
    features = np.array([one.features() for one in signs])
    judged = np.array([one.judged for one in signs])
    odds = np.where(
        judged[:, None],
        features @ _weights()[f"{stage} judged"].T,
        features @ _weights()[f"{stage} alone"].T,
    )
    # What is central helps too, though each grade has weights of its own.
    chances = np.maximum.accumulate(1 / (1 + np.exp(-np.clip(odds, -_BOUND, _BOUND))), axis=1)
    worth = chances @ np.array(WORTH)
    return [
        Likelihood(central=float(row[0]), useful=float(row[-1]), worth=float(one))
        for row, one in zip(chances, worth, strict=True)
    ]


@lru_cache(maxsize=1)
def _weights() -> Mapping[str, np.ndarray]:
    loaded = json.loads((shipped_docs() / FILE).read_text(encoding="utf-8"))
    return {name: np.array(rows) for name, rows in loaded.items()}
