"""Keeps the vectors and the indexes in step with the store."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from kb.config import Home
from kb.embedders import Embedder
from kb.errors import StoreError
from kb.progress import Progress, silent
from kb.store import Store

if TYPE_CHECKING:
    from kb.indexes.files import Index

BATCH = 128  # passages between two commits: what a killed run embeds again, some seconds' work
KEPT = 2  # generations on disk: a reader may be about to open the one before
EXACT_UP_TO = 200_000  # passages: beyond, Chroma's graph beats comparing every vector


class Derived:
    """The indexes of a store: embeds what is pending, and rebuilds what is out of date.

    Args:
        dense: ``exact``, ``chroma``, or ``auto``: exact where the passages are few enough.
    """

    def __init__(self, store: Store, embedder: Embedder, home: Home, dense: str = "auto") -> None:
        self._store = store
        self._embedder = embedder
        self._home = home
        self._dense = dense
        self._index: Index | None = None

    def current(self, progress: Progress = silent) -> Index:
        """Return the indexes of the store as it is now, building what is missing.

        While another process builds them, the last complete ones answer.

        Raises:
            StoreError: they cannot be written.
        """
        generation = self._store.generation()
        if self._index is not None and self._index.generation == generation:
            return self._index
        self._index = (
            self._load(generation)
            or self._build(progress, wait=False)
            or self._load(self._store.state(self._state) or "")
            or self._build(progress, wait=True)
        )
        assert self._index is not None
        return self._index

    @property
    def _state(self) -> str:
        return f"indexed:{self._embedder.name}"

    @property
    def _root(self) -> Path:
        return self._home.root / "index"

    def _folder(self, generation: str) -> Path:
        safe = "".join(c if c.isalnum() else "-" for c in self._embedder.name)
        return self._root / f"{generation}-{safe}"

    def _load(self, generation: str) -> Index | None:
        from kb.indexes.files import load_index

        try:
            index = load_index(self._folder(generation))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise StoreError(
                f"{self._root}: cannot read the index ({error}): delete the folder, it is made again"
            ) from error
        if self._dense == "chroma" or (self._dense == "auto" and len(index.ids) > EXACT_UP_TO):
            from kb.indexes.chroma import Chroma

            chroma = Chroma(self._home.chroma, self._embedder.name, index.ids)
            return replace(index, dense=chroma)
        return index

    def _build(self, progress: Progress, *, wait: bool) -> Index | None:
        """Build the indexes of the present generation; None where another process is at it."""
        try:
            with self._lock(progress, wait=wait):
                generation = self._refresh(progress)
        except Timeout:
            return None
        except OSError as error:
            raise StoreError(
                f"{self._home.root}: cannot write the index ({error.strerror or error}): "
                "free some space or make the folder writable, then run the command again"
            ) from error
        return self._load(generation)

    @contextmanager
    def _lock(self, progress: Progress, *, wait: bool) -> Iterator[None]:
        self._home.root.mkdir(parents=True, exist_ok=True)
        if wait:
            progress("waiting for another kb that is indexing")
        with FileLock(self._home.root / "index.lock", timeout=-1 if wait else 0):
            yield

    def _refresh(self, progress: Progress) -> str:
        from kb.indexes.chroma import Chroma
        from kb.indexes.files import write_index

        snapshot = self._store.snapshot(self._embedder.name)
        while not snapshot.complete:
            self._embed(progress)
            snapshot = self._store.snapshot(self._embedder.name)
        folder = self._folder(snapshot.generation)
        if not folder.exists():
            progress("writing the index")
            Chroma(self._home.chroma, self._embedder.name).sync(snapshot.passages, snapshot.vectors)
            write_index(folder, snapshot.generation, snapshot.passages, snapshot.vectors)
            self._store.set_state(self._state, snapshot.generation)
            self._store.drop_unused_vectors()
            self._clean()
        return snapshot.generation

    def _embed(self, progress: Progress) -> None:
        pending = self._store.pending(self._embedder.name)
        contents = list(pending)
        for start in range(0, len(contents), BATCH):
            part = contents[start : start + BATCH]
            tell = _shifted(progress, start, len(contents))
            vectors = self._embedder.embed([pending[content] for content in part], tell)
            self._store.put_vectors(self._embedder.name, part, vectors)

    def _clean(self) -> None:
        folders = [path for path in self._root.iterdir() if path.is_dir()]
        folders.sort(key=lambda path: path.stat().st_mtime_ns)
        for path in folders[:-KEPT]:
            shutil.rmtree(path, ignore_errors=True)


def _shifted(progress: Progress, start: int, total: int) -> Progress:
    """Report the batch that begins at `start` as a part of the whole."""

    def tell(what: str, done: float | None = None, of: float | None = None, /) -> None:
        if what == "embedding":
            progress("embedding passages", start + (done or 0), total)
        else:
            progress(what, done, of)

    return tell
