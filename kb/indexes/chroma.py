"""Chroma: the vectors and texts where any Chroma client finds them, and an approximate index.

Embedded Chroma is safe with one process only: writers that share a folder lose a quarter of each
other's vectors or crash every later open, a reader that stays open never sees another's vectors,
and a killed writer leaves wrong counts. So everything here happens under one file lock with a
client that is opened and closed inside it, and a marker tells that a writer was killed: then the
folder is made anew, which is cheap, because the vectors are kept in SQL. A server
(``KB_CHROMA=http://HOST:PORT``) has none of these limits.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlparse

from filelock import FileLock

from kb.errors import ConfigError, StoreError
from kb.indexes import Ranked
from kb.types import Passage

if TYPE_CHECKING:
    from kb.indexes import Mask, Vector

BATCH = 2000  # Chroma takes 5,461 at most
T = TypeVar("T")


class Chroma:
    """One collection, named after the embedder.

    Args:
        folder: of the embedded database; not used where ``KB_CHROMA`` names a server.
        embedder: name of the embedder that made the vectors.
        ids: identity of each row's passage, in the order of the rows.
    """

    def __init__(self, folder: Path, embedder: str, ids: Sequence[str] = ()) -> None:
        self._folder = folder
        self._name = "kb-" + "".join(c if c.isalnum() else "-" for c in embedder).strip("-")[:40]
        self._ids = ids
        self._server = os.environ.get("KB_CHROMA")
        if self._server is not None:  # several homes may share it
            self._name += "-" + blake2b(str(folder).encode(), digest_size=6).hexdigest()

    def sync(self, passages: Sequence[Passage], vectors: Vector) -> None:
        """Make the collection hold these passages and no other.

        Raises:
            StoreError: Chroma cannot be written.
        """
        with self._lock():
            marker = self._folder.with_suffix(".writing")
            if self._server is None:
                if marker.exists():
                    shutil.rmtree(self._folder, ignore_errors=True)
                marker.touch()
            self._repaired(lambda: self._sync(passages, vectors))
            marker.unlink(missing_ok=True)

    def rank(self, vector: Vector, among: Mask, count: int) -> list[Ranked]:
        """Return at most `count` rows of `among` by cosine, best first; ties by row.

        Approximate: Chroma's graph finds 97 to 99 of 100 nearest neighbours.
        """
        rows = {identity: row for row, identity in enumerate(self._ids) if among[row]}
        if not rows:
            return []
        found: dict[int, float] = {}
        with self._lock(), self._collection() as collection:
            total, asked = collection.count(), count
            while True:
                # Chroma's own filters cost more than asking for more and filtering here.
                asked = min(asked, total)
                reply = collection.query(
                    query_embeddings=[vector.tolist()], n_results=asked, include=["distances"]
                )
                pairs = zip(reply["ids"][0], reply["distances"][0], strict=True)
                found = {rows[one]: 1.0 - distance for one, distance in pairs if one in rows}
                if len(found) >= min(count, len(rows)) or asked >= total:
                    break
                asked *= 4
        ranked = sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))
        return [Ranked(row, score) for row, score in ranked[:count]]

    def count(self) -> int:
        """Return how many passages the collection holds."""
        with self._lock(), self._collection() as collection:
            return len(collection.get(include=[])["ids"])

    def _sync(self, passages: Sequence[Passage], vectors: Vector) -> None:
        with self._collection() as collection:
            there = set(collection.get(include=[])["ids"])
            wanted = {passage.id: row for row, passage in enumerate(passages)}
            gone = sorted(there - wanted.keys())
            new = sorted(row for identity, row in wanted.items() if identity not in there)
            for start in range(0, len(gone), BATCH):
                collection.delete(ids=gone[start : start + BATCH])
            for start in range(0, len(new), BATCH):
                part = new[start : start + BATCH]
                collection.add(
                    ids=[passages[row].id for row in part],
                    embeddings=[vectors[row] for row in part],
                    documents=[passages[row].text for row in part],
                    metadatas=[_metadata(passages[row]) for row in part],
                )

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
        try:
            client = self._client()
            try:
                yield client.get_or_create_collection(
                    self._name,
                    embedding_function=None,
                    configuration={"hnsw": {"space": "cosine"}},
                )
            finally:
                client.close()
        except ConfigError:
            raise
        except Exception as error:
            found = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            advice = (
                "check that the server runs, or unset KB_CHROMA"
                if self._server
                else "check free disk space and that the place is writable, then run the command again"
            )
            raise StoreError(
                f"{self._server or self._folder}: Chroma failed ({found}): {advice}"
            ) from error

    def _client(self) -> Any:
        import chromadb
        from chromadb.config import Settings

        settings = Settings(anonymized_telemetry=False)
        if self._server is None:
            return chromadb.PersistentClient(str(self._folder), settings)
        place = urlparse(self._server)
        if place.scheme not in {"http", "https"} or not place.hostname:
            raise ConfigError(f"KB_CHROMA: expected http://HOST:PORT, found {self._server!r}")
        secure = place.scheme == "https"
        return chromadb.HttpClient(
            place.hostname, place.port or (443 if secure else 8000), secure, settings=settings
        )


def _forget_clients() -> None:
    # A client that failed to open stays in Chroma's table of clients and fails the next one too.
    from chromadb.api.shared_system_client import SharedSystemClient

    SharedSystemClient.clear_system_cache()


def _metadata(passage: Passage) -> dict[str, str]:
    return {"document": passage.document, "section": passage.section, "kind": passage.kind}
