"""Embeds the shipped documents with the default embedder, and writes the file of their vectors."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from kb.config import Home
from kb.embedders import DEFAULT_EMBEDDER, create_embedder
from kb.indexes.seed import write
from kb.knowledge import open_knowledge


def main() -> None:
    """Embed what has no vector yet, and keep the vectors of all that is shipped."""
    os.environ.pop("KB_DATABASE", None)
    os.environ["KB_EMBEDDER"] = DEFAULT_EMBEDDER
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder))
        name = create_embedder(DEFAULT_EMBEDDER, home.cache).name
        print(f"{write(open_knowledge(home).store, name)} vectors of {name}")


if __name__ == "__main__":
    main()
