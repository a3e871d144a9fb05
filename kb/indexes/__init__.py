"""What ranks passages for a question: by meaning (dense) and by words (lexical).

Everything here is derived: it is rebuilt from the store whenever passages changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Mask = NDArray[np.bool_]
    Vector = NDArray[np.float32]
    Rows = NDArray[np.intp]


class Moved(Exception):
    """Passages went away while they were being indexed: begin anew."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """A passage's row number with its score, higher is better."""

    row: int
    score: float


class Dense(Protocol):
    """Ranks rows by how near their vectors are."""

    def rank(self, vector: Vector, among: Mask, count: int) -> list[Ranked]:
        """Return at most `count` rows of `among` by cosine, best first; ties by row."""
        ...


class Lexical(Protocol):
    """Ranks rows by the words that they share with a question."""

    def rank(self, text: str, among: Mask, count: int) -> list[Ranked]:
        """Return at most `count` rows of `among` that share a word, best first; ties by row."""
        ...


def best(scores: Vector, rows: Rows, count: int) -> list[Ranked]:
    """Return the `count` highest of `scores`, which belong to `rows` in ascending order."""
    import numpy as np

    if count < len(scores):
        # Everything that ties with the last place stays in, so that the cut is by row, not chance.
        floor = np.partition(scores, len(scores) - count)[len(scores) - count]
        keep = np.flatnonzero(scores >= floor)
        scores, rows = scores[keep], rows[keep]
    order = np.argsort(-scores, kind="stable")[:count]
    return [Ranked(int(rows[i]), float(scores[i])) for i in order]
