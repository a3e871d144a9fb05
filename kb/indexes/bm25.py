"""BM25 over words that know identifiers, scored when it is asked.

bm25s (whose scores these are: the tests compare them) works a word's score in each passage out when it
indexes, so that one passage more means all of them again. Here the counts are kept, and a question works
out the few columns that it needs: the same answer, from an index that grows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kb.indexes import Ranked, best
from kb.indexes.postings import Postings, write_postings
from kb.records.types import Passage
from kb.words import split_words

if TYPE_CHECKING:
    from kb.indexes import Mask, Rows, Vector

K1, B = 1.5, 0.75  # what bm25s takes


class Bm25:
    """Lucene's BM25 over passages with their breadcrumbs, kept in one or several parts.

    Args:
        parts: the postings, one part behind the other.
        living: of each row, where it stands in the parts; None: there is no other. Passages that
            are gone still count in how common a word is, until their part is written anew.
    """

    def __init__(self, parts: Sequence[Postings], living: Rows | None = None) -> None:
        self._parts = parts
        self._living = living

    @classmethod
    def load(cls, folder: Path) -> Bm25:
        """Map the index that `write` left in `folder`."""
        return cls([Postings.load(folder)])

    @staticmethod
    def write(folder: Path, passages: Sequence[Passage]) -> None:
        """Index `passages` into `folder`."""
        write_postings(
            folder, (matched_text(one.section, one.symptoms, one.text) for one in passages)
        )

    def rank(self, text: str, among: Mask, count: int) -> list[Ranked]:
        """Return at most `count` rows of `among` that share a word, best first; ties by row."""
        scores = self.scores(text)
        scores[~among] = 0
        rows = np.flatnonzero(scores)
        return best(scores[rows], rows, count)

    def scores(self, text: str) -> Vector:
        """Return the BM25 score of each row."""
        total = np.zeros(self._passages, np.float32)
        words = split_words(text)
        for word in dict.fromkeys(words):
            self._add(word, words.count(word), total)
        return total if self._living is None else total[self._living]

    def _add(self, word: str, times: int, total: Vector) -> None:
        found = [part.find(word) for part in self._parts]
        having = sum(where.stop - where.start for where in found)
        if not having:
            return
        weight = times * math.log(1 + (self._passages - having + 0.5) / (having + 0.5))
        first = 0
        for part, where, norm in zip(self._parts, found, self._norms, strict=True):
            rows, counts = part.lists(where)
            often = counts.astype(np.float32)
            # A row is once in a list.
            total[first : first + len(norm)][rows] += np.float32(weight) * (
                often / (often + norm[rows])
            )
            first += len(norm)

    @cached_property
    def _passages(self) -> int:
        return sum(len(part.lengths) for part in self._parts)

    @cached_property
    def _norms(self) -> list[Vector]:
        """Return, of each part, what each row's count is weighed against."""
        words = sum(int(part.lengths.sum(dtype=np.int64)) for part in self._parts)
        mean = max(words, 1) / max(self._passages, 1)
        return [
            (K1 * (1 - B + B * part.lengths / np.float32(mean))).astype(np.float32)
            for part in self._parts
        ]


def matched_text(section: str, symptoms: Sequence[str], text: str) -> str:
    """Return the text whose words stand for a passage: its place and its symptoms too."""
    return "\n".join((section, " ".join(symptoms), text))
