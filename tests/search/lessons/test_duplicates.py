from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kb.embedders import DEFAULT_EMBEDDER, create_embedder
from search.lessons.duplicates import Alike


@pytest.fixture(scope="module")
def embedder():
    return create_embedder(DEFAULT_EMBEDDER, Path.home() / ".cache" / "kb")


def test_close_rewordings_are_one_idea_and_other_parameters_are_not(embedder):
    alike = Alike(embedder)
    known = [
        "Tile of 128 by 128 in shared memory",
        "Prefetch the next row into the cache",
        "Keep a tile of 64 by 64 in shared memory",
    ]
    assert alike("Tile of 64 by 64 kept in shared memory", known) == 2
    assert alike("Tile of 32 by 64 in shared memory", known) is None
    assert alike("Fuse the bias into the product's epilogue", known) is None
    assert alike("anything", []) is None


def test_a_text_is_embedded_once():
    class Counting:
        texts = 0

        def embed(self, texts):
            self.texts += len(texts)
            return np.ones((len(texts), 1), np.float32)

    counting = Counting()
    alike = Alike(counting)
    assert alike("a", ["b", "c"]) == 0
    assert alike("d", ["b", "c"]) == 0
    assert counting.texts == 4
