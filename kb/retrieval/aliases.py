"""The rows of an index that are other words for a passage: searched with it, given as it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kb.indexes import Ranked
from kb.store.aliases import MARK, WIDTH

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kb.indexes import Mask
    from kb.indexes.files import Index

    Rows = NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True)
class AliasMap:
    """Which rows speak for which passages.

    Attributes:
        rows: ascending.
        passages: of each of them, the row that it speaks for.
        lost: rows whose passage is not in the index: nothing finds them.
    """

    rows: Rows
    passages: Rows
    lost: Rows

    def apart(self, mask: Mask) -> Mask:
        """Return `mask` without rows that are no passages."""
        if not len(self.rows) and not len(self.lost):
            return mask
        kept = mask.copy()
        kept[self.rows] = False
        kept[self.lost] = False
        return kept

    def widened(self, among: Mask) -> Mask:
        """Return `among` with the rows that speak for its passages."""
        if not len(self.rows):
            return among
        wide = among.copy()
        wide[self.rows] = among[self.passages]
        return wide

    def depth(self, count: int) -> int:
        """Return how many places to look at for `count` passages."""
        return 2 * count if len(self.rows) else count

    def folded(self, ranked: Sequence[Ranked], count: int) -> list[Ranked]:
        """Return the first `count` passages of a ranking, each at its best place."""
        if not len(self.rows):
            return list(ranked[:count])
        best: dict[int, Ranked] = {}
        for one in ranked:
            row = self._passage(one.row)
            best.setdefault(row, Ranked(row, one.score))
        return list(best.values())[:count]

    def _passage(self, row: int) -> int:
        place = int(np.searchsorted(self.rows, row))
        found = place < len(self.rows) and self.rows[place] == row
        return int(self.passages[place]) if found else row


def find_asked(index: Index) -> AliasMap:
    """Find the rows of `index` that speak for others, without walking through all identities."""
    ids = index.ids.array
    none = np.zeros(0, np.intp)
    if ids.dtype.itemsize <= WIDTH:
        return AliasMap(rows=none, passages=none, lost=none)
    letters = np.ascontiguousarray(ids).view("S1").reshape(len(ids), -1)
    rows = np.flatnonzero(letters[:, WIDTH] == MARK.encode())
    documents = {index.sources[source].shown for source in set(index.source_of[rows].tolist())}
    with_some = np.array([source.shown in documents for source in index.sources], bool)
    near = np.flatnonzero(with_some[index.source_of])
    row_of = dict(zip(ids[near].tolist(), near.tolist(), strict=True))
    passages = [row_of.get(name[:WIDTH], -1) for name in ids[rows].tolist()]
    there = np.asarray(passages, np.intp)
    return AliasMap(rows=rows[there >= 0], passages=there[there >= 0], lost=rows[there < 0])
