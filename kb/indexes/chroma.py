"""Chroma: the vectors and texts where any Chroma client finds them, and an approximate index.

Embedded Chroma is safe with one process only: writers that share a folder lose a quarter of each
other's vectors or crash every later open, a reader that stays open never sees another's vectors,
and a killed writer leaves wrong counts. So everything here happens under one file lock with a
client that is opened and closed inside it, and a marker tells that a writer was killed: then the
folder is made anew, which is cheap, because the vectors are kept in SQL. A server
(``KB_CHROMA=HOST:PORT``) has none of these limits.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import urlparse

import numpy as np
from filelock import FileLock

from kb.errors import ConfigError, StoreError
from kb.indexes import Ranked, best
from kb.records.types import Passage

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kb.indexes import Dense, Mask, Vector

    Ids = NDArray[np.bytes_]


class Vectors(Protocol):
    """The vectors of rows."""

    def __getitem__(self, rows: NDArray[np.intp], /) -> Vector:
        """Return one row for each."""
        ...


BATCH = 2000  # Chroma takes 5,461 at most
# Chroma's own values (16, 100, 100) find 966 of 1,000 nearest neighbours of 100,000.
HNSW = {"space": "cosine", "max_neighbors": 32, "ef_construction": 200, "ef_search": 400}
LEAST = 200  # passages that Chroma is asked for at least
OVERSAMPLED = 2  # passages that Chroma is asked for, for each one wanted
PROBED = 50  # places among which a probe has to be
T = TypeVar("T")
Read = Callable[[Sequence[str]], Iterable[tuple[Passage, "Vector"]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Where a Chroma server listens, and which of its databases is meant."""

    host: str
    port: int
    secure: bool
    tenant: str
    database: str

    @property
    def shown(self) -> str:
        """The address in messages."""
        return f"http{'s' if self.secure else ''}://{self.host}:{self.port}"


class Chroma:
    """One collection, named after the embedder.

    Args:
        folder: of the embedded database; not used where ``KB_CHROMA`` names a server.
        embedder: name of the embedder that made the vectors.
    """

    def __init__(self, folder: Path, embedder: str) -> None:
        self._folder = folder
        self._name = "kb-" + "".join(c if c.isalnum() else "-" for c in embedder).strip("-")[:40]
        self._server = server()
        self._client: Any = None  # of a server: it may be kept open
        if self._server is not None:  # several homes may share it
            self._name += "-" + blake2b(str(folder).encode(), digest_size=6).hexdigest()

    def sync(self, ids: Sequence[str], read: Read, *, anew: bool = False) -> None:
        """Make the collection hold these passages and no other.

        Args:
            anew: delete what it holds first.
            read: returns some of the passages with their vectors, in the order of their identities.

        Raises:
            StoreError: Chroma cannot be written.
        """
        with self._lock():
            marker = self._folder.with_suffix(".writing")
            if self._server is not None and anew:
                with self._collection() as collection, self._explained():
                    self._client.delete_collection(collection.name)
            if self._server is None:
                if marker.exists() or anew:
                    shutil.rmtree(self._folder, ignore_errors=True)
                marker.touch()
            self._repaired(lambda: self._sync(ids, read))
            marker.unlink(missing_ok=True)

    def nearest(self, vector: Vector, count: int) -> list[str]:
        """Return about `count` identities, nearest first.

        Approximate: of 100 nearest neighbours Chroma's graph finds 97 to 99.

        Raises:
            StoreError: Chroma cannot be asked.
        """
        with self._lock(), self._collection() as collection, self._explained():
            asked = min(count, collection.count())
            if not asked:
                return []
            reply = collection.query(
                query_embeddings=[vector.tolist()], n_results=asked, include=[]
            )
        found: list[str] = reply["ids"][0]
        return found

    def count(self) -> int:
        """Return how many passages the collection holds."""
        with self._lock(), self._collection() as collection, self._explained():
            return len(collection.get(include=[])["ids"])

    def whole(self, count: int, probes: Sequence[tuple[str, Vector]]) -> bool:
        """Say whether the collection has `count` passages, and finds these by their own vectors.

        A writer that was killed can leave an embedded collection that has a passage and never
        finds it.
        """
        with self._lock(), self._collection() as collection, self._explained():
            if collection.count() != count:
                return False
        return all(identity in self.nearest(vector, PROBED) for identity, vector in probes)

    def _sync(self, ids: Sequence[str], read: Read) -> None:
        with self._collection() as collection:
            with self._explained():
                there = set(collection.get(include=[])["ids"])
            gone = sorted(there.difference(ids))
            new = [identity for identity in ids if identity not in there]
            for start in range(0, len(gone), BATCH):
                with self._explained():
                    collection.delete(ids=gone[start : start + BATCH])
            for start in range(0, len(new), BATCH):
                part = list(read(new[start : start + BATCH]))
                rows = {
                    "ids": [passage.id for passage, _ in part],
                    "embeddings": [vector for _, vector in part],
                    "documents": [passage.text for passage, _ in part],
                    "metadatas": [_metadata(passage) for passage, _ in part],
                }
                with self._explained():
                    collection.add(**rows)

    def _repaired(self, work: Callable[[], T]) -> T:
        if self._server is not None:
            return work()
        try:
            return work()
        except StoreError:
            # What is embedded is derived: a folder that Chroma cannot use is made anew, once.
            shutil.rmtree(self._folder, ignore_errors=True)
            _forget_clients()
            return work()

    @contextmanager
    def _lock(self) -> Iterator[None]:
        if self._server is not None:
            yield
            return
        with FileLock(self._folder.with_suffix(".lock")):
            yield

    @contextmanager
    def _collection(self) -> Iterator[Any]:
        with self._explained():
            client = self._client or self._open()
        if self._server is not None:
            self._client = client
        try:
            with self._explained():
                collection = client.get_or_create_collection(
                    self._name, embedding_function=None, configuration={"hnsw": HNSW}
                )
            yield collection
        finally:
            if self._server is None:
                with self._explained():
                    client.close()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Say in one line what Chroma raised: around its own calls only."""
        try:
            yield
        except Exception as error:
            found = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            advice = (
                "check that the server runs (chroma run), or unset KB_CHROMA"
                if self._server
                else "check free disk space and that the place is writable, then run the command again"
            )
            place = self._server.shown if self._server else self._folder
            raise StoreError(f"{place}: Chroma failed ({found}): {advice}") from error

    def _open(self) -> Any:
        import chromadb
        from chromadb.config import Settings

        settings = Settings(anonymized_telemetry=False)
        if self._server is None:
            return chromadb.PersistentClient(str(self._folder), settings)
        return chromadb.HttpClient(
            self._server.host,
            self._server.port,
            self._server.secure,
            settings=settings,
            tenant=self._server.tenant,
            database=self._server.database,
        )


class Approximate:
    """The dense half by way of Chroma: it says who is near, and they are compared in full.

    Args:
        exact: answers where a filter leaves few rows: Chroma's filters cost more than that.
        ids: identity of each row.
        vectors: of each row.
        selective: rows up to which `exact` answers.
    """

    def __init__(
        self, chroma: Chroma, exact: Dense, ids: Ids, vectors: Vectors, selective: int
    ) -> None:
        self.chroma = chroma
        self._exact = exact
        self._vectors = vectors
        self._selective = selective
        self._order = np.argsort(ids)
        self._sorted = ids[self._order]

    def rank(self, vector: Vector, among: Mask, count: int) -> list[Ranked]:
        """Return at most `count` rows of `among` by cosine, best first; ties by row."""
        wanted = int(np.count_nonzero(among))
        if wanted <= self._selective:
            return self._exact.rank(vector, among, count)
        asked = max(LEAST, OVERSAMPLED * count)
        while True:
            asked = min(asked, len(among))
            near = self.chroma.nearest(vector, asked)
            rows = self._rows(near)
            rows = np.sort(rows[among[rows]])
            if len(rows) >= min(count, wanted) or asked == len(among) or len(near) < asked:
                break
            asked *= 4
        if not len(rows):
            return []
        return best(self._vectors[rows] @ vector, rows, count)

    def _rows(self, names: Sequence[str]) -> NDArray[np.intp]:
        """Return the rows of these identities; Chroma may hold some of another generation."""
        wanted = np.array(names, np.bytes_)
        at = np.searchsorted(self._sorted, wanted)
        at[at == len(self._sorted)] = 0
        rows: NDArray[np.intp] = self._order[at[self._sorted[at] == wanted]]
        return rows


def server() -> Server | None:
    """Return the server that ``KB_CHROMA`` names, or None where it is not set.

    Raises:
        ConfigError: it is no address of a server.
    """
    given = os.environ.get("KB_CHROMA")
    if not given:
        return None
    place = urlparse(given if "://" in given else f"http://{given}")
    try:
        port = place.port
    except ValueError:
        port = -1
    names = [name for name in place.path.split("/") if name]
    sound = place.scheme in {"http", "https"} and place.hostname and port != -1
    if not sound or len(names) > 2 or place.username:
        raise ConfigError(
            f"KB_CHROMA: expected HOST:PORT, http://HOST:PORT or http://HOST:PORT/TENANT/DATABASE, "
            f"found {given!r}"
        )
    secure = place.scheme == "https"
    tenant, database = [*names, *("default_tenant", "default_database")[len(names) :]]
    return Server(
        host=place.hostname or "",
        port=port or (443 if secure else 8000),
        secure=secure,
        tenant=tenant,
        database=database,
    )


def _forget_clients() -> None:
    # A client that failed to open stays in Chroma's table of clients and fails the next one too.
    from chromadb.api.shared_system_client import SharedSystemClient

    SharedSystemClient.clear_system_cache()


def _metadata(passage: Passage) -> dict[str, str]:
    return {"document": passage.document, "section": passage.section, "kind": passage.kind}
