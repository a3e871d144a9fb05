"""BM25 over words that know identifiers, with bm25s."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import bm25s
import numpy as np

from kb.indexes import Ranked, best
from kb.indexes.words import split_words
from kb.types import Passage

if TYPE_CHECKING:
    from kb.indexes import Mask

FOLDER = "bm25"


class Bm25:
    """Lucene's BM25 over passages with their breadcrumbs.

    Args:
        model: a bm25s index, or None where no passage has a word.
    """

    def __init__(self, model: Any | None) -> None:
        self._model = model

    @classmethod
    def load(cls, folder: Path) -> Bm25:
        """Map the index that `write` left in `folder`."""
        path = folder / FOLDER
        return cls(bm25s.BM25.load(path, mmap=True) if path.exists() else None)

    @staticmethod
    def write(folder: Path, passages: Sequence[Passage]) -> None:
        """Index `passages` into `folder`."""
        words = [split_words(matched_text(passage)) for passage in passages]
        if any(words):
            model = bm25s.BM25(method="lucene")
            model.index(words, show_progress=False)
            model.save(folder / FOLDER, show_progress=False)

    def rank(self, text: str, among: Mask, count: int) -> list[Ranked]:
        """Return at most `count` rows of `among` that share a word, best first; ties by row."""
        words = [] if self._model is None else self._model.get_tokens_ids(split_words(text))
        if not len(words):
            return []
        assert self._model is not None
        scores = self._model.get_scores_from_ids(words)
        rows = np.flatnonzero(among & (scores > 0))
        return best(scores[rows], rows, count)


def matched_text(passage: Passage) -> str:
    """Return the text whose words stand for `passage`: its place and its symptoms too."""
    return "\n".join((passage.section, " ".join(passage.symptoms), passage.text))
