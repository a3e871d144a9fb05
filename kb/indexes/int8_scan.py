"""Every vector compared, in a byte a number, and the best of them again in full.

At 1,000,000 passages the matrix is 1.5 GB, and multiplying it takes a tenth of a second of two
cores. A quarter of it, in bytes and with the processor's own byte products (simsimd), takes a tenth
of that. The bytes only choose who is compared in full, so rounding costs nothing that can be
measured; and unlike a graph there is nothing to build, to tune or to repair, and a filter costs
nothing.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kb.indexes import Ranked, best
from kb.indexes.arrays import new_array
from kb.indexes.flat import products

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kb.indexes import Mask, Vector

CODES = "codes.npy"
SCALES = "scales.npy"
FROM = 10_000  # rows: below, the matrix itself is compared in less than 2 ms
OVERSAMPLED = 4  # rows compared in full for each one asked for
LEAST = 200
FULL = 4_000  # rows that a filter leaves: so many are compared in full at once
SHARED = 500_000  # rows from which on several threads share the work
BLOCK = 16_384  # rows quantised at a time


class Scan:
    """Brute force over unit vectors rounded to bytes, the best compared again in full.

    Args:
        matrix: float32, one row a passage; only rows that may be among the best are read.
        codes: int8, the same rows, each scaled so that its largest number is 127.
        scales: float32, by which each row of `codes` is its row of `matrix`.
    """

    def __init__(self, matrix: Vector, codes: NDArray[np.int8], scales: Vector) -> None:
        self.matrix = matrix
        self._codes = codes
        self._scales = scales

    @classmethod
    def load(cls, folder: Path, matrix: Vector) -> Scan:
        """Map what `write` left in `folder`."""
        return cls(matrix, np.load(folder / CODES, mmap_mode="r"), np.load(folder / SCALES))

    @staticmethod
    def write(folder: Path, matrix: Vector) -> None:
        """Write the codes of `matrix` into `folder`."""
        codes = new_array(folder / CODES, np.int8, matrix.shape)
        scales = np.zeros(len(matrix), np.float32)
        for start in range(0, len(matrix), BLOCK):
            part = slice(start, start + BLOCK)
            codes[part], scales[part] = quantise(matrix[part])
        np.save(folder / SCALES, scales)

    def rank(self, vector: Vector, among: Mask, count: int) -> list[Ranked]:
        """Return at most `count` rows of `among` by cosine, best first; ties by row."""
        rows = np.flatnonzero(among)
        if len(rows) > FULL:
            wanted = max(LEAST, OVERSAMPLED * count)
            rows = self._nearest(vector, among, min(wanted, len(rows)))
        if not len(rows):
            return []
        return best(products(self.matrix[rows], vector), rows, count)

    def _nearest(self, vector: Vector, among: Mask, count: int) -> NDArray[np.intp]:
        """Return about `count` rows of `among`, nearest by their codes, in ascending order."""
        import simsimd

        code, _ = quantise(vector[None])
        threads = min(8, _cores()) if len(self._codes) >= SHARED else 1
        found = simsimd.cdist(code, self._codes, metric="dot", threads=threads, out_dtype="float32")
        scores = np.asarray(found, np.float32)[0] * self._scales
        scores[~among] = -np.inf
        return np.sort(np.argpartition(scores, len(scores) - count)[len(scores) - count :])


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def quantise(rows: Vector) -> tuple[NDArray[np.int8], Vector]:
    """Return `rows` as bytes, and the factor of each row that undoes it."""
    scales = np.abs(rows).max(axis=1, keepdims=True) / 127
    scales[scales == 0] = 1
    return np.rint(rows / scales).astype(np.int8), scales[:, 0].astype(np.float32)
