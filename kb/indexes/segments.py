"""Passages that were indexed together: written once, never changed, and shared by generations.

A library that grows by a page gets a small segment beside the large one. What is gone stays in its
segment, unseen, until that is written anew; `plan` decides when, so that a search meets few segments
and a passage is written a few times at most.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import numpy as np

from kb.indexes import Ranked
from kb.indexes.arrays import new_array
from kb.indexes.bm25 import matched_text
from kb.indexes.flat import FILE, Exact
from kb.indexes.int8_scan import CODES, FROM, Scan
from kb.indexes.postings import Postings, write_postings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kb.indexes import Dense, Mask, Vector

    Ids = NDArray[np.bytes_]
    Marks = NDArray[np.int64]

IDS = "ids.npy"
MARKS = "marks.npy"
PROBES = 16  # rows of a segment that are looked at when it is opened
GROWTH = 2  # a segment less than this many times as large as what is new is written with it
DEAD = 0.3  # share of a segment that may be gone before it is written anew


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedText:
    """What is indexed of a passage."""

    section: str
    text: str
    symptoms: tuple[str, ...]
    vector: Vector


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSegment:
    """An open segment.

    Attributes:
        ids: of its passages, ascending.
        marks: of each passage, a hash of what is indexed of it and is not in its identity.
    """

    name: str
    ids: Ids
    marks: Marks
    matrix: Vector
    dense: Dense
    postings: Postings


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentPlan:
    """How the passages there are now are had from segments.

    Attributes:
        kept: segments, each with its rows that are still there, ascending.
        fresh: positions of the passages that need a new segment, ascending.
    """

    kept: tuple[tuple[IndexSegment, NDArray[np.intp]], ...]
    fresh: NDArray[np.intp]


def plan(ids: Ids, marks: Marks, segments: Sequence[IndexSegment]) -> SegmentPlan:
    """Decide which segments serve on, and what has to be written.

    Args:
        ids: of all passages there are now, ascending.
        marks: of each of these passages.
    """
    kept = []
    fresh = np.ones(len(ids), bool)
    for segment in segments:
        here, there = _shared(ids, marks, segment)
        here_fresh = fresh[here]
        here, there = here[here_fresh], there[here_fresh]
        if len(there) >= (1 - DEAD) * len(segment.ids):
            kept.append((segment, here, there))
            fresh[here] = False
    kept.sort(key=lambda one: -len(one[2]))
    while kept and len(kept[-1][2]) <= GROWTH * np.count_nonzero(fresh):
        fresh[kept.pop()[1]] = True
    return SegmentPlan(
        kept=tuple((segment, there) for segment, _, there in kept), fresh=np.flatnonzero(fresh)
    )


def write_segment(root: Path, ids: Ids, marks: Marks, texts: Iterable[IndexedText]) -> str:
    """Write a segment below `root`, all or nothing, and return its name.

    Args:
        ids: of its passages, ascending.
        texts: one for each identity; only some thousand are held at a time.

    Raises:
        OSError: it cannot be written.
    """
    name = uuid4().hex
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root, prefix="new-") as parent:
        draft = Path(parent) / name
        draft.mkdir()
        np.save(draft / IDS, ids)
        np.save(draft / MARKS, marks)
        write_postings(draft, _matched(texts, draft, len(ids)))
        if len(ids) >= FROM:
            Scan.write(draft, np.load(draft / FILE, mmap_mode="r"))
        for path in draft.iterdir():
            _to_disk(path)
        os.replace(draft, root / name)
    return name


def load_segment(root: Path, name: str) -> IndexSegment:
    """Map a segment and look at a sample of it.

    Raises:
        FileNotFoundError: it is not there.
        ValueError: it is not whole.
    """
    folder = root / name
    exact = Exact.load(folder)
    segment = IndexSegment(
        name=name,
        ids=np.load(folder / IDS, mmap_mode="r"),
        marks=np.load(folder / MARKS, mmap_mode="r"),
        matrix=exact.matrix,
        dense=Scan.load(folder, exact.matrix) if (folder / CODES).exists() else exact,
        postings=Postings.load(folder),
    )
    _probe(segment)
    return segment


def drop_segments(root: Path, used: Iterable[str]) -> None:
    """Delete what is below `root` and not `used`, as far as it can be deleted."""
    wanted = set(used)
    for path in root.iterdir() if root.is_dir() else ():
        if path.name not in wanted:
            shutil.rmtree(path, ignore_errors=True)


def local_mask(among: Mask, living: NDArray[np.intp], size: int) -> Mask:
    """Return which rows of a segment of `size` rows are meant, where `living` rows are seen."""
    if len(living) == size:
        return among
    mask = np.zeros(size, bool)
    mask[living[among]] = True
    return mask


class Joined:
    """The dense halves of several segments as one.

    Args:
        parts: of each segment its dense half, its number of rows, and those that are seen.
        ids: identity of each row that is seen, over all segments.
    """

    def __init__(self, parts: Sequence[tuple[IndexSegment, NDArray[np.intp]]], ids: Ids) -> None:
        self._parts = parts
        self._ids = ids

    def rank(self, vector: Vector, among: Mask, count: int) -> list[Ranked]:
        """Return at most `count` rows of `among` by cosine, best first; ties by identity."""
        found: list[Ranked] = []
        first = 0
        for segment, living in self._parts:
            mask = among[first : first + len(living)]
            if mask.any():
                local = local_mask(mask, living, len(segment.ids))
                for one in segment.dense.rank(vector, local, count):
                    row = first + int(np.searchsorted(living, one.row))
                    found.append(Ranked(row, one.score))
            first += len(living)
        found.sort(key=lambda one: (-one.score, self._ids[one.row]))
        return found[:count]


def _shared(
    ids: Ids, marks: Marks, segment: IndexSegment
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return where the passages that are unchanged stand now, and where in `segment`."""
    if not len(ids) or not len(segment.ids):
        return np.zeros(0, np.intp), np.zeros(0, np.intp)
    there = np.searchsorted(segment.ids, ids)
    there[there == len(segment.ids)] = 0
    same = (segment.ids[there] == ids) & (segment.marks[there] == marks)
    return np.flatnonzero(same), there[same]


def _matched(texts: Iterable[IndexedText], draft: Path, count: int) -> Iterator[str]:
    """Write the vectors of `texts` on the way, and hand on what their words are taken from."""
    matrix: Vector | None = None
    row = -1
    for row, one in enumerate(texts):
        if matrix is None:
            shape = (count, len(one.vector))
            matrix = new_array(draft / FILE, np.float32, shape)
        matrix[row] = one.vector
        yield matched_text(one.section, one.symptoms, one.text)
    if row + 1 != count:
        raise ValueError(f"expected {count} passages, found {row + 1}")
    if matrix is None:
        new_array(draft / FILE, np.float32, (0, 1))


def _probe(segment: IndexSegment) -> None:
    """Look at some rows: a machine that lost power can leave files of the right length with holes.

    Raises:
        ValueError: a row cannot be right.
    """
    count = len(segment.ids)
    if not count == len(segment.matrix) == len(segment.marks) == len(segment.postings.lengths):
        raise ValueError("its files have different numbers of rows")
    if not count:
        return
    rows = np.unique(np.linspace(0, count - 1, PROBES).astype(np.intp))
    norms = np.linalg.norm(segment.matrix[rows], axis=1)
    if not np.allclose(norms, 1, atol=1e-3):
        raise ValueError("it has a vector that is not of length one")
    names = segment.ids[rows]
    if not np.all(names[:-1] < names[1:]) or not names[0]:
        raise ValueError("its passages are not in order")
    for row in rows[:: PROBES // 4]:
        only = np.zeros(count, bool)
        only[row] = True
        found = segment.dense.rank(np.asarray(segment.matrix[row]), only, 1)
        if [one.row for one in found] != [row]:
            raise ValueError("a passage is not found by its own vector")


def _to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
