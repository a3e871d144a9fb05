"""Vectors of the shipped documents, so that a new home need not embed them.

Embedding them takes a minute. A vector is found by the hash of its text: a document that changed since they
were made is embedded as any other. `python tools/embed_library.py` makes them anew.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import BadZipFile

import numpy as np

from kb.config import shipped_docs
from kb.progress import say
from kb.store.documents import Store

if TYPE_CHECKING:
    from kb.embedders import Vectors


def plant(store: Store, embedder: str, folder: Path | None = None) -> int:
    """Give a store the shipped vectors that it lacks; return how many.

    Args:
        embedder: the name of the embedder; few have shipped vectors.
        folder: of the vectors, where it is not the installed one.
    """
    wanted = set(store.pending(embedder))
    if not wanted:
        return 0
    contents, vectors = read(_file(embedder, folder))
    rows = [row for row, content in enumerate(contents) if content in wanted]
    store.put_vectors(embedder, [contents[row] for row in rows], vectors[rows])
    return len(rows)


def read(path: Path) -> tuple[list[str], Vectors]:
    """Return the hashes of texts in a file and their vectors; nothing where it is not there, or torn, which is said."""
    try:
        with np.load(path) as kept:
            return kept["contents"].astype(str).tolist(), kept["vectors"].astype(np.float32)
    except FileNotFoundError:
        pass
    except (OSError, KeyError, ValueError, EOFError, BadZipFile) as error:
        say(
            f"{path}: expected the vectors of the shipped documents, found a file that cannot be read ({error}): "
            "they are embedded; install kb again"
        )
    return [], np.zeros((0, 0), np.float32)


def write(store: Store, embedder: str, folder: Path | None = None) -> int:
    """Keep the vectors of all passages of a store; return how many."""
    contents, vectors = store.vectors(embedder, "kb:")
    path = _file(embedder, folder)
    path.parent.mkdir(exist_ok=True)
    # Half precision moves a cosine by 0.00014 at most, measured on the shipped documents.
    np.savez_compressed(path, contents=np.array(contents, "S"), vectors=vectors.astype(np.float16))
    return len(contents)


def _file(embedder: str, folder: Path | None) -> Path:
    safe = "".join(c if c.isalnum() else "-" for c in embedder)
    return (folder or shipped_docs() / "vectors") / f"{safe}.npz"
