"""BM25 over words that know identifiers: indexed by bm25s, scored from the matrix that it wrote.

bm25s has each word's score in each passage worked out when it indexes; a question only adds
columns up. Those few lines are here because `import bm25s` brings scipy and costs more than the
rest of a search.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kb.indexes import Ranked, best
from kb.indexes.words import split_words
from kb.types import Passage

if TYPE_CHECKING:
    from kb.indexes import Mask, Vector

FOLDER = "bm25"


class Bm25:
    """Lucene's BM25 over passages with their breadcrumbs.

    Args:
        columns: of each word, its column.
        starts: of each column, where it starts in `rows` and `scores`; one more at the end.
        rows: passages that have the word.
        scores: what the word adds to them.
    """

    def __init__(
        self, columns: Mapping[str, int], starts: Vector, rows: Vector, scores: Vector
    ) -> None:
        self._columns = columns
        self._starts = starts
        self._rows = rows
        self._scores = scores

    @classmethod
    def load(cls, folder: Path) -> Bm25:
        """Map the index that `write` left in `folder`."""
        path = folder / FOLDER
        if not path.exists():
            none = np.zeros(0, np.float32)
            return cls({}, none, none, none)
        columns = json.loads((path / "vocab.index.json").read_text(encoding="utf-8"))
        parts = (np.load(path / f"{name}.csc.index.npy", mmap_mode="r") for name in _PARTS)
        return cls(columns, *parts)

    @staticmethod
    def write(folder: Path, passages: Sequence[Passage]) -> None:
        """Index `passages` into `folder`."""
        import bm25s

        words = [split_words(matched_text(passage)) for passage in passages]
        if any(words):
            model = bm25s.BM25(method="lucene")
            model.index(words, show_progress=False)
            model.save(folder / FOLDER, show_progress=False)

    def rank(self, text: str, among: Mask, count: int) -> list[Ranked]:
        """Return at most `count` rows of `among` that share a word, best first; ties by row."""
        scores = self.scores(text, len(among))
        rows = np.flatnonzero(among & (scores > 0))
        return best(scores[rows], rows, count)

    def scores(self, text: str, passages: int) -> Vector:
        """Return the BM25 score of each of the `passages` rows."""
        total = np.zeros(passages, np.float32)
        for word in split_words(text):
            column = self._columns.get(word)
            if column is not None:
                part = slice(self._starts[column], self._starts[column + 1])
                total[self._rows[part]] += self._scores[part]  # a row is once in a column
        return total


_PARTS = ("indptr", "indices", "data")


def matched_text(passage: Passage) -> str:
    """Return the text whose words stand for `passage`: its place and its symptoms too."""
    return "\n".join((passage.section, " ".join(passage.symptoms), passage.text))
