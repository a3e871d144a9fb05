"""Finds lessons that say the same in other words, by the distance of their vectors."""

from __future__ import annotations

from collections.abc import Sequence

from kb.embedders import Embedder

SAME = 0.80  # cosine; `benchmarks/lessons.py --alike` shows pairs on both sides of it


class Alike:
    """Compares texts by their embeddings; loads the embedder when first asked."""

    def __init__(self, embedder: Embedder, least: float = SAME) -> None:
        self._embedder = embedder
        self._least = least

    def __call__(self, text: str, others: Sequence[str]) -> int | None:
        """Return which of `others` means the same as `text`, None where none does."""
        vectors = self._embedder.embed([text, *others])
        near = vectors[1:] @ vectors[0]
        best = int(near.argmax())
        return best if float(near[best]) >= self._least else None
