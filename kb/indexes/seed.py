"""Vectors of the shipped documents, kept beside the exported encoder for the next new home.

Embedding them takes a minute and gives the same vectors in every project: a home that is made later
takes them from here. A vector is found by the hash of its text, so another version of the documents
takes what has not changed; vectors of other versions stay until there are too many.
"""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import BadZipFile

import numpy as np

from kb.store.documents import Store

if TYPE_CHECKING:
    from kb.embedders import Vectors

_MOST = 10_000  # vectors that are kept, 1.6 KB each


class Seed:
    """The kept vectors of one embedder.

    Args:
        cache: folder shared by all homes.
        prefix: of the keys of the documents whose vectors are kept.
    """

    def __init__(self, store: Store, embedder: str, cache: Path, prefix: str) -> None:
        self._store = store
        self._embedder = embedder
        self._prefix = prefix
        safe = "".join(c if c.isalnum() else "-" for c in embedder)
        self.path = cache / f"shipped-{safe}.npz"

    def plant(self) -> int:
        """Give the store the kept vectors that it lacks; return how many."""
        wanted = set(self._store.pending(self._embedder))
        contents, vectors = self._kept()
        rows = [row for row, content in enumerate(contents) if content in wanted]
        found = [contents[row] for row in rows]
        self._store.put_vectors(self._embedder, found, vectors[rows])
        return len(found)

    def keep(self) -> None:
        """Keep the vectors of the documents."""
        contents, vectors = self._store.vectors(self._embedder, self._prefix)
        if not contents:
            return
        others, their_vectors = self._kept()
        known = set(contents)
        rows = [row for row, content in enumerate(others) if content not in known]
        rows = rows[: max(0, _MOST - len(contents))]
        if rows:
            contents = [*contents, *(others[row] for row in rows)]
            vectors = np.concatenate([vectors, their_vectors[rows]])
        # Without this file the next home embeds them itself: no reason to stop this one.
        with suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self.path.parent, delete=False) as file:
                np.savez(file, contents=np.array(contents, np.str_), vectors=vectors)
            Path(file.name).replace(self.path)

    def _kept(self) -> tuple[list[str], Vectors]:
        try:
            with np.load(self.path) as kept:
                return kept["contents"].tolist(), kept["vectors"]
        except (OSError, KeyError, ValueError, EOFError, BadZipFile):
            return [], np.zeros(
                (0, 0), np.float32
            )  # none, or torn: all is embedded, and kept again
