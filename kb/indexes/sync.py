"""Keeps the vectors and the indexes in step with the store."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from kb.config import Home
from kb.embedders import Embedder, create_embedder
from kb.errors import ConfigError, StoreError
from kb.progress import Progress, silent
from kb.store.documents import Store

if TYPE_CHECKING:
    from kb.embedders import Vectors
    from kb.indexes import Vector
    from kb.indexes.chroma import Chroma
    from kb.indexes.files import Index, PassageColumns
    from kb.indexes.source import IndexSource
    from kb.records.types import Passage

BATCH = 256  # passages between two commits: what a killed run embeds again, some seconds' work
KEPT = 2  # generations on disk: a reader may be about to open the one before
SERVED = 20_000  # passages beyond which a Chroma server is asked who is near
SAME_MODEL = 0.98  # cosine of a text's vectors by one model in two precisions
SWITCHED = 1_000  # passages: so many are embedded by whoever asks, more only by `refresh`


class IndexSync:
    """The indexes of a store: embeds what is pending, and rebuilds what is out of date.

    Args:
        dense: ``local``, ``chroma`` (the server that ``KB_CHROMA`` names), or ``auto``: that server
            where the passages are many, else local.
        spec: by which `create_embedder` makes this embedder, so that it can answer on while the
            passages are embedded by another.
    """

    def __init__(
        self, store: Store, embedder: Embedder, home: Home, dense: str = "auto", spec: str = ""
    ) -> None:
        self._store = store
        self._embedder = embedder
        self._home = home
        self._dense = dense
        self._spec = spec
        self._index: Index | None = None
        self._seen = ""  # generation of the store when the index was opened
        self._asked = embedder

    @property
    def embedder(self) -> Embedder:
        """What embeds questions: always the model of the index that answers."""
        return _OfIndex(self)

    @property
    def answering(self) -> Embedder:
        """The embedder of the index that answers now."""
        return self._asked

    def current(self, progress: Progress = silent) -> Index:
        """Return the indexes of the store as it is now, building what is missing.

        While another process builds them, the last complete ones answer. After a change of the
        model that leaves much to embed, those of the model before answer until `refresh` is done.

        Raises:
            StoreError: they cannot be written.
        """
        generation = self._store.generation()
        if self._index is not None and self._seen == generation:
            return self._index
        name = self._embedder.name
        self._asked = self._embedder
        self._index = (
            self._load(name, generation, progress)
            or self._former(progress, SWITCHED)
            or self._build(progress, wait=False)
            or self._load(name, self._store.state(_state(name)) or "", progress)
            or self._former(progress, 0)
            or self._build(progress, wait=True)
        )
        assert self._index is not None
        self._seen = generation
        return self._index

    def refresh(self, progress: Progress = silent) -> Index:
        """Return the indexes of the store as it is now, however long it takes to build them.

        Raises:
            StoreError: they cannot be written.
        """
        generation = self._store.generation()
        if self._index is None or self._seen != generation or self._asked is not self._embedder:
            self._index = (
                self._load(self._embedder.name, generation, progress)
                or self._build(progress, wait=False)
                or self._build(progress, wait=True)
            )
            self._asked = self._embedder
            assert self._index is not None
            self._seen = self._index.generation
        return self._index

    @property
    def _root(self) -> Path:
        return self._home.root / "index"

    def _folder(self, embedder: str, generation: str) -> Path:
        return self._root / f"{generation}-{''.join(c if c.isalnum() else '-' for c in embedder)}"

    def _load(self, embedder: str, generation: str, progress: Progress) -> Index | None:
        """Open an index, or return None where it is not there or not whole."""
        from kb.indexes.files import load_index

        folder = self._folder(embedder, generation)
        try:
            index = load_index(folder)
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, EOFError) as error:
            progress(f"the index is not whole ({error}): making it again")
            shutil.rmtree(folder, ignore_errors=True)
            return None
        except OSError as error:
            raise StoreError(
                f"{self._root}: cannot read the index ({error}): delete the folder, it is made again"
            ) from error
        return self._by_chroma(index, progress) if self._through_chroma(len(index.ids)) else index

    def _former(self, progress: Progress, above: int) -> Index | None:
        """Return the index of the model before where more than `above` passages are pending."""
        from kb.indexes.source import IndexSource

        serving = json.loads(self._store.state("serving") or "{}")
        name = serving.get("embedder", "")
        if not serving.get("spec") or name == self._embedder.name:
            return None
        total, done = IndexSource(self._store.engine, self._embedder.name).counts()
        if total - done <= above:
            return None
        index = self._load(name, self._store.state(_state(name)) or "", progress)
        if index is not None:
            progress(
                f"{total - done:,} of {total:,} passages are not embedded by {self._embedder.name} yet: "
                f"the index of {name} answers until `kb init` has embedded them"
            )
            self._asked = create_embedder(serving["spec"], self._home.cache)
        return index

    def _build(self, progress: Progress, *, wait: bool) -> Index | None:
        """Bring everything up to date; None where another process is at it."""
        try:
            with self._lock(progress, wait=wait):
                return self._refresh(progress)
        except Timeout:
            return None
        except OSError as error:
            raise StoreError(
                f"{self._home.root}: cannot write the index ({error.strerror or error}): "
                "free some space or make the folder writable, then run the command again"
            ) from error

    @contextmanager
    def _lock(self, progress: Progress, *, wait: bool) -> Iterator[None]:
        self._home.root.mkdir(parents=True, exist_ok=True)
        if wait:
            progress("waiting for another kb that is indexing")
        with FileLock(self._home.root / "index.lock", timeout=-1 if wait else 0):
            yield

    def _refresh(self, progress: Progress) -> Index:
        from kb.indexes import Moved
        from kb.indexes.source import IndexSource

        columns = IndexSource(self._store.engine, self._embedder.name)
        while True:
            self._embed(columns, progress)
            index = self._load(self._embedder.name, self._store.generation(), progress)
            if index is not None:
                return index
            outline = columns.outline()
            if outline.complete:
                try:
                    return self._write(outline, columns, progress)
                except Moved:  # a document went away meanwhile
                    continue

    def _write(self, outline: PassageColumns, columns: IndexSource, progress: Progress) -> Index:
        from kb.indexes.files import clean, write_index

        name = self._embedder.name
        progress("writing the index")
        self._root.mkdir(parents=True, exist_ok=True)
        self._copy(outline, columns)
        before = self._last()
        write_index(self._folder(name, outline.generation), name, outline, columns.read, before)
        self._store.set_state(_state(name), outline.generation)
        self._serve(columns)
        if columns.stored() > 1.1 * len(outline.ids):
            self._store.drop_unused_vectors()
        clean(self._root, KEPT)
        index = self._load(name, outline.generation, progress)
        if index is None:
            raise StoreError(f"{self._root}: the index vanished while it was written: run it again")
        return index

    def _last(self) -> Index | None:
        """Return the latest index of this embedder, for the segments it has."""
        from kb.indexes.files import load_index

        name = self._embedder.name
        try:
            return load_index(self._folder(name, self._store.state(_state(name)) or ""))
        except (OSError, ValueError, KeyError, EOFError):
            return None  # what is not whole is no help

    def _serve(self, columns: IndexSource) -> None:
        """Note which model answers; vectors of models before the last one are dropped."""
        name = self._embedder.name
        serving = json.loads(self._store.state("serving") or "{}")
        if (serving.get("embedder"), serving.get("spec")) != (name, self._spec):
            now = {"embedder": name, "spec": self._spec}
            self._store.set_state("serving", json.dumps(now))
            columns.forget([name, serving.get("embedder", name)])

    def _embed(self, columns: IndexSource, progress: Progress) -> None:
        contents = columns.pending()
        if contents and not self._embedder.pinned:
            self._check_model(columns)
        for start in range(0, len(contents), BATCH):
            texts = columns.texts(contents[start : start + BATCH])
            tell = _shifted(progress, start, len(contents))
            vectors = self._embedder.embed(list(texts.values()), tell)
            columns.keep(list(texts), vectors)

    def _check_model(self, columns: IndexSource) -> None:
        """Embed again what has a vector: one index never holds vectors of two models.

        Raises:
            StoreError: another model answers under the name of the one before.
        """
        sample = columns.sample()
        if sample is None:
            return
        text, before = sample
        (now,) = self._embedder.embed([text])
        if len(now) != len(before) or float(now @ before) < SAME_MODEL:
            raise StoreError(
                f"embedder {self._embedder.name}: expected the model that made the vectors there are, "
                f"found another under its name ({len(before)} numbers before, {len(now)} now): "
                "serve the one before, or give the new one a name of its own"
            )

    def _through_chroma(self, passages: int) -> bool:
        if self._dense == "chroma":
            return True
        from kb.indexes.chroma import server

        return self._dense == "auto" and passages > SERVED and server() is not None

    def _copy(self, outline: PassageColumns, columns: IndexSource) -> None:
        """Bring the Chroma server that is named in step with the passages there are."""
        from kb.indexes.chroma import server

        shutil.rmtree(self._home.root / "chroma", ignore_errors=True)  # of an older version
        if self._dense == "chroma" or server() is not None:
            ids = [one.decode() for one in outline.ids.tolist()]
            self._chroma().sync(ids, lambda part: self._items(part, columns))

    def _items(self, ids: Sequence[str], columns: IndexSource) -> Iterable[tuple[Passage, Vector]]:
        from kb.indexes import Moved

        passages = self._store.passages(ids)
        if len(passages) < len(ids):
            raise Moved
        for identity, text in zip(ids, columns.read(ids), strict=True):
            yield passages[identity], text.vector

    def _by_chroma(self, index: Index, progress: Progress) -> Index:
        """Let Chroma say who is near, after a look at whether it has everything."""
        from kb.indexes.chroma import Approximate
        from kb.indexes.source import IndexSource

        chroma = self._chroma()
        count = len(index.ids)
        rows = [count * part // 4 for part in range(4)] if count else []
        probes = [(index.ids[row], index.vectors[row]) for row in rows]
        for anew in (False, True):
            if chroma.whole(count, probes):
                break
            progress("Chroma does not have every passage: filling it")
            columns = IndexSource(self._store.engine, self._embedder.name)
            chroma.sync(index.ids, lambda part: self._items(part, columns), anew=anew)  # noqa: B023 - called at once
        selective = 0 if self._dense == "chroma" else SERVED
        dense = Approximate(chroma, index.dense, index.ids.array, index.vectors, selective)
        return replace(index, dense=dense)

    def _chroma(self) -> Chroma:
        from kb.indexes.chroma import Chroma, server

        named = server()
        if named is None:
            raise ConfigError(
                "dense chroma: expected a server in KB_CHROMA, found none: set HOST:PORT"
            )
        return Chroma(named, self._home.root, self._embedder.name)


class Ready(IndexSync):
    """The indexes of a store as they are, for who looks and must not write."""

    def current(self, progress: Progress = silent) -> Index:
        """Return the latest index that is whole, building nothing.

        Raises:
            StoreError: there is none.
        """
        name, generation = self._embedder.name, self._store.generation()
        if self._index is not None and self._seen == generation:
            return self._index
        found = self._load(name, generation, progress) or self._load(
            name, self._store.state(_state(name)) or "", progress
        )
        if found is None:
            raise StoreError(
                "expected an index of the knowledge base, found none: run kb init, which makes it"
            )
        self._index, self._seen, self._asked = found, generation, self._embedder
        return found


class _OfIndex:
    """Embeds questions by the model of the index that answers."""

    def __init__(self, derived: IndexSync) -> None:
        self._derived = derived

    @property
    def name(self) -> str:
        return self._derived.answering.name

    @property
    def dimension(self) -> int:
        return self._derived.answering.dimension

    @property
    def pinned(self) -> bool:
        return self._derived.answering.pinned

    def embed(self, texts: Sequence[str], progress: Progress = silent) -> Vectors:
        return self._derived.answering.embed(texts, progress)


def _state(embedder: str) -> str:
    return f"indexed:{embedder}"


def _shifted(progress: Progress, start: int, total: int) -> Progress:
    """Report the batch that begins at `start` as a part of the whole."""

    def tell(what: str, done: float | None = None, of: float | None = None, /) -> None:
        if what == "embedding":
            progress("embedding passages", start + (done or 0), total)
        else:
            progress(what, done, of)

    return tell
