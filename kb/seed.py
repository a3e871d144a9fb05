"""Vectors of the shipped documents, kept beside the exported encoder for the next new home.

Embedding them takes ten seconds and gives the same vectors in every project: a home that is made
later takes them from here. A vector is found by the hash of its text, so another version of the
documents takes what has not changed.
"""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from kb.store import Store


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
        try:
            with np.load(self.path) as kept:
                contents, vectors = kept["contents"].tolist(), kept["vectors"]
        except (OSError, KeyError, ValueError, EOFError, BadZipFile):
            return 0  # none kept, or torn: they are embedded, and kept again
        rows = [row for row, content in enumerate(contents) if content in wanted]
        found = [contents[row] for row in rows]
        self._store.put_vectors(self._embedder, found, vectors[rows])
        return len(found)

    def keep(self) -> None:
        """Keep the vectors of the documents."""
        contents, vectors = self._store.vectors(self._embedder, self._prefix)
        # Without this file the next home embeds them itself: no reason to stop this one.
        with suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self.path.parent, delete=False) as file:
                np.savez(file, contents=np.array(contents, np.str_), vectors=vectors)
            Path(file.name).replace(self.path)
