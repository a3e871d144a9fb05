"""Every vector compared, from a matrix mapped into memory.

The default: at 100,000 passages a query takes 7 ms, less than importing an approximate index does
(`import chromadb` alone takes 0.8 s, more than all the rest of a search from the command line),
it is exact, and a filter makes it faster instead of slower.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kb.indexes import Ranked, best

if TYPE_CHECKING:
    from kb.indexes import Mask, Vector

FILE = "vectors.npy"
SELECTIVE = 0.3  # below this share, picking rows out costs less than multiplying all of them


class Exact:
    """Brute force over unit vectors.

    Args:
        matrix: float32, one row a passage.
    """

    def __init__(self, matrix: Vector) -> None:
        self.matrix = matrix

    @classmethod
    def load(cls, folder: Path) -> Exact:
        """Map the matrix that `write` left in `folder`."""
        return cls(np.load(folder / FILE, mmap_mode="r"))

    @staticmethod
    def write(folder: Path, matrix: Vector) -> None:
        """Write `matrix` into `folder`."""
        np.save(folder / FILE, matrix)

    def rank(self, vector: Vector, among: Mask, count: int) -> list[Ranked]:
        """Return at most `count` rows of `among` by cosine, best first; ties by row."""
        rows = np.flatnonzero(among)
        if not len(rows):
            return []
        if len(rows) < SELECTIVE * len(self.matrix):
            scores = self.matrix[rows] @ vector
        else:
            scores = (self.matrix @ vector)[rows]
        return best(scores, rows, count)
