"""Every vector compared, from a matrix mapped into memory.

It is exact, a filter makes it faster instead of slower, and it needs no import that takes longer than
the answer (`import chromadb` alone takes 0.8 s, more than all the rest of a search from the command
line).
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
            scores = products(self.matrix[rows], vector)
        else:
            scores = products(self.matrix, vector)[rows]
        return best(scores, rows, count)


def products(matrix: Vector, vector: Vector) -> Vector:
    """Return the product of each row with `vector`.

    By one thread: the threads of a BLAS wait by turning in circles, and where the encoder or another
    process wants the same cores they wait for milliseconds.
    """
    import simsimd

    found = simsimd.cdist(vector[None], matrix, metric="dot", out_dtype="float32")
    return np.asarray(found, np.float32).reshape(len(matrix))
