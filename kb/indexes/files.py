"""The indexes of one generation of the store: which segments it has, and which of their rows.

The folder of a generation appears under its final name only when it is whole, so a killed writer
leaves nothing that a reader could mistake for an index.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from kb.indexes import Dense, Lexical
from kb.indexes.bm25 import Bm25
from kb.indexes.segments import (
    IndexedText,
    IndexSegment,
    Joined,
    drop_segments,
    load_segment,
    plan,
    write_segment,
)
from kb.records.types import Kind, Scope

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kb.indexes import Vector

TABLE = "table.json"
ROWS = "rows.npz"
SEGMENTS = "segments"
FORMAT = 3  # of what is written here; another one is written anew
Read = Callable[[Sequence[str]], Iterable[IndexedText]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What a filter asks of a passage; `shown` is its document's name in quotations."""

    shown: str
    kind: Kind
    scope: Scope
    symptoms: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PassageColumns:
    """All passages that are to be found, without their texts, in ascending order of identity.

    Attributes:
        ids: bytes, one identity a row.
        marks: int64; changes with what is indexed of a passage beside its identity.
        sources: what filters ask for, each once.
        source_of: int32, for each row the number of its source.
        tokens: int32.
        complete: no passage was left out for want of a vector.
    """

    generation: str
    ids: NDArray[np.bytes_]
    marks: NDArray[np.int64]
    sources: tuple[Source, ...]
    source_of: NDArray[np.int32]
    tokens: NDArray[np.int32]
    complete: bool = True


class Names(Sequence[str]):
    """Identities of rows, as text, over an array of bytes."""

    def __init__(self, ids: NDArray[np.bytes_]) -> None:
        self.array = ids

    def __len__(self) -> int:
        return len(self.array)

    @overload
    def __getitem__(self, row: int) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> Names: ...
    def __getitem__(self, row: int | slice) -> str | Names:
        """Return the identity of a row, or those of several."""
        return Names(self.array[row]) if isinstance(row, slice) else self.array[row].decode()

    def __iter__(self) -> Iterator[str]:
        return (name.decode() for name in self.array.tolist())


class Matrix:
    """The vectors of rows that lie in several segments.

    Args:
        parts: of each segment its matrix, and the rows of it that are seen.
    """

    def __init__(self, parts: Sequence[tuple[Vector, NDArray[np.intp]]]) -> None:
        self._parts = parts
        self._ends = np.cumsum([len(living) for _, living in parts])

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def __getitem__(self, rows: int | Sequence[int] | NDArray[np.intp]) -> Vector:
        """Return the vector of a row, or one row for each of several."""
        asked = np.atleast_1d(np.asarray(rows, np.intp))
        found = [self._row(int(row)) for row in asked]
        return found[0] if np.ndim(rows) == 0 else np.stack(found)

    def _row(self, row: int) -> Vector:
        number = int(np.searchsorted(self._ends, row, side="right"))
        matrix, living = self._parts[number]
        vector: Vector = np.asarray(matrix[living[row - (int(self._ends[number]) - len(living))]])
        return vector


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """The indexes of one generation, mapped from a folder.

    Attributes:
        ids: identity of each row's passage.
        sources: what filters ask of the passages.
        source_of: int32, for each row the number of its source in `sources`.
        tokens: int32, of each row.
        vectors: float32, one unit vector for each row.
    """

    generation: str
    embedder: str
    ids: Names
    sources: tuple[Source, ...]
    source_of: NDArray[np.int32]
    tokens: NDArray[np.int32]
    vectors: Matrix
    dense: Dense
    lexical: Lexical
    segments: tuple[IndexSegment, ...] = field(default=(), repr=False)


def write_index(
    folder: Path, embedder: str, outline: PassageColumns, read: Read, before: Index | None = None
) -> None:
    """Write the index of `outline` to `folder`, all or nothing.

    Args:
        read: returns what is indexed of some passages, in their order.
        before: an index of the same embedder whose segments may serve on.

    Raises:
        OSError: it cannot be written.
        ValueError: `read` found fewer passages than it was asked for.
    """
    root = folder.parent / SEGMENTS
    planned = plan(outline.ids, outline.marks, before.segments if before else ())
    parts = [(segment.name, segment.ids, living) for segment, living in planned.kept]
    if len(planned.fresh):
        ids, marks = outline.ids[planned.fresh], outline.marks[planned.fresh]
        name = write_segment(root, ids, marks, read([one.decode() for one in ids.tolist()]))
        parts.append((name, ids, np.arange(len(ids))))
    table = {
        "format": FORMAT,
        "generation": outline.generation,
        "embedder": embedder,
        "segments": [name for name, _, _ in parts],
        **_plain(outline.sources),
    }
    every = [ids[living] for _, ids, living in parts]
    order = np.searchsorted(outline.ids, np.concatenate(every)) if every else np.zeros(0, np.intp)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="new-") as parent:
        draft = Path(parent) / folder.name
        draft.mkdir()
        (draft / TABLE).write_text(json.dumps(table), encoding="utf-8")
        arrays: dict[str, Any] = {f"living{n}": living for n, (_, _, living) in enumerate(parts)}
        np.savez(
            draft / ROWS,
            ids=outline.ids[order],
            source_of=outline.source_of[order],
            tokens=outline.tokens[order],
            **arrays,
        )
        if folder.exists():
            shutil.rmtree(folder)
        os.replace(draft, folder)


def load_index(folder: Path) -> Index:
    """Map the index in `folder`.

    Raises:
        FileNotFoundError: it, or a part of it, is not there.
        ValueError: it is not whole, or of another format.
    """
    table: dict[str, Any] = json.loads((folder / TABLE).read_text(encoding="utf-8"))
    if table.get("format") != FORMAT:
        raise ValueError(f"expected format {FORMAT}, found {table.get('format')}")
    segments = [load_segment(folder.parent / SEGMENTS, name) for name in table["segments"]]
    with np.load(folder / ROWS) as rows:
        ids, source_of, tokens = rows["ids"], rows["source_of"], rows["tokens"]
        living = [rows[f"living{number}"] for number in range(len(segments))]
    if not len(ids) == len(source_of) == len(tokens) == sum(map(len, living)):
        raise ValueError("its lists have different numbers of rows")
    parts = list(zip(segments, living, strict=True))
    return Index(
        generation=table["generation"],
        embedder=table["embedder"],
        ids=Names(ids),
        sources=_sources(table),
        source_of=source_of,
        tokens=tokens,
        vectors=Matrix([(segment.matrix, rows) for segment, rows in parts]),
        dense=Joined(parts, ids),
        lexical=Bm25([segment.postings for segment in segments], _stored(parts)),
        segments=tuple(segments),
    )


def clean(root: Path, kept: int) -> None:
    """Delete all but the `kept` latest generations below `root`, and the segments only they had."""
    folders = [path for path in root.iterdir() if path.is_dir() and path.name != SEGMENTS]
    folders.sort(key=lambda path: path.stat().st_mtime_ns)
    for path in folders[:-kept]:
        shutil.rmtree(path, ignore_errors=True)
    used: set[str] = set()
    for path in folders[-kept:]:
        if (path / TABLE).exists():
            used.update(json.loads((path / TABLE).read_text(encoding="utf-8")).get("segments", ()))
    drop_segments(root / SEGMENTS, used)


def _stored(parts: Sequence[tuple[IndexSegment, NDArray[np.intp]]]) -> NDArray[np.intp] | None:
    """Return where each row stands in the segments put behind each other; None where all do."""
    if all(len(living) == len(segment.ids) for segment, living in parts):
        return None
    starts = np.cumsum([0, *(len(segment.ids) for segment, _ in parts)])
    every = [start + living for start, (_, living) in zip(starts, parts, strict=False)]
    stored: NDArray[np.intp] = np.concatenate(every)
    return stored


def _plain(sources: Sequence[Source]) -> dict[str, Any]:
    """Return sources as JSON: their few scopes and symptoms once, and each by their numbers."""
    scopes: dict[Scope, int] = {}
    symptoms: dict[tuple[str, ...], int] = {}
    rows = [
        (
            one.shown,
            one.kind,
            scopes.setdefault(one.scope, len(scopes)),
            symptoms.setdefault(one.symptoms, len(symptoms)),
        )
        for one in sources
    ]
    return {"scopes": [asdict(one) for one in scopes], "symptoms": list(symptoms), "sources": rows}


def _sources(table: dict[str, Any]) -> tuple[Source, ...]:
    scopes = [
        Scope(**{name: tuple(found) for name, found in value.items()}) for value in table["scopes"]
    ]
    symptoms = [tuple(value) for value in table["symptoms"]]
    return tuple(
        Source(shown=shown, kind=kind, scope=scopes[scope], symptoms=symptoms[answered])
        for shown, kind, scope, answered in table["sources"]
    )
