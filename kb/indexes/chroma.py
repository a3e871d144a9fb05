"""A Chroma server: the vectors and texts where any Chroma client finds them, and an approximate index.

``KB_CHROMA=HOST:PORT`` names it. Chroma inside this process is not used: it is safe with one process
only. Writers that share its folder lose a quarter of each other's vectors or crash every later open.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlparse

import numpy as np

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
Read = Callable[[Sequence[str]], Iterable[tuple[Passage, "Vector"]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChromaServer:
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
    """One collection, named after the embedder and the home: several homes may share a server.

    Args:
        home: the home's folder.
        embedder: name of the embedder that made the vectors.
    """

    def __init__(self, server: ChromaServer, home: Path, embedder: str) -> None:
        self._server = server
        self._client: Any = None
        plain = "".join(c if c.isalnum() else "-" for c in embedder).strip("-")[:40]
        place = blake2b(str(home / "chroma").encode(), digest_size=6).hexdigest()
        self._name = f"kb-{plain}-{place}"

    def sync(self, ids: Sequence[str], read: Read, *, anew: bool = False) -> None:
        """Make the collection hold these passages and no other.

        Args:
            anew: delete what it holds first.
            read: returns some of the passages with their vectors, in the order of their identities.

        Raises:
            StoreError: Chroma cannot be written.
        """
        with self._explained():
            collection = self._collection()
            if anew:
                self._client.delete_collection(collection.name)
                collection = self._collection()
            there = set(collection.get(include=[])["ids"])
            gone = sorted(there.difference(ids))
            for start in range(0, len(gone), BATCH):
                collection.delete(ids=gone[start : start + BATCH])
        new = [identity for identity in ids if identity not in there]
        for start in range(0, len(new), BATCH):
            rows = _rows(read(new[start : start + BATCH]))
            with self._explained():
                collection.add(**rows)

    def nearest(self, vector: Vector, count: int) -> list[str]:
        """Return about `count` identities, nearest first.

        Approximate: of 100 nearest neighbours Chroma's graph finds 97 to 99.

        Raises:
            StoreError: Chroma cannot be asked.
        """
        with self._explained():
            collection = self._collection()
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
        with self._explained():
            return len(self._collection().get(include=[])["ids"])

    def whole(self, count: int, probes: Sequence[tuple[str, Vector]]) -> bool:
        """Say whether the collection has `count` passages, and finds these by their own vectors.

        A writer that was killed leaves a part of it, and an index may have a passage and not find it.
        """
        with self._explained():
            if self._collection().count() != count:
                return False
        return all(identity in self.nearest(vector, PROBED) for identity, vector in probes)

    def _collection(self) -> Any:
        self._client = self._client or self._open()
        return self._client.get_or_create_collection(
            self._name, embedding_function=None, configuration={"hnsw": HNSW}
        )

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Say in one line what Chroma raised: around its own calls only."""
        try:
            yield
        except Exception as error:
            found = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            raise StoreError(
                f"{self._server.shown}: Chroma failed ({found}): check that the server runs (chroma run), "
                "or unset KB_CHROMA"
            ) from error

    def _open(self) -> Any:
        import chromadb
        from chromadb.config import Settings

        return chromadb.HttpClient(
            self._server.host,
            self._server.port,
            self._server.secure,
            settings=Settings(anonymized_telemetry=False),
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


def server() -> ChromaServer | None:
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
    return ChromaServer(
        host=place.hostname or "",
        port=port or (443 if secure else 8000),
        secure=secure,
        tenant=tenant,
        database=database,
    )


def _rows(found: Iterable[tuple[Passage, Vector]]) -> dict[str, list[Any]]:
    part = list(found)
    return {
        "ids": [passage.id for passage, _ in part],
        "embeddings": [vector for _, vector in part],
        "documents": [passage.text for passage, _ in part],
        "metadatas": [
            {"document": passage.document, "section": passage.section, "kind": passage.kind}
            for passage, _ in part
        ],
    }
