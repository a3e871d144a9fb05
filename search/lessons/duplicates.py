"""Finds lessons that say the same in other words, by the distance of their vectors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from kb.embedders import Embedder

if TYPE_CHECKING:
    from kb.embedders import Vectors

# Cosine. Different ideas reach 0.72 and rewordings that share few words do not: what is joined
# wrongly is lost, so only close rewordings are joined (`benchmarks/lessons.py --alike`).
SAME = 0.80
_FIGURE = re.compile(
    r"\d+|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|twelve|sixteen|thirty-two|sixty-four)\b",
    re.IGNORECASE,
)


class Alike:
    """Compares texts by their embeddings; loads the embedder when first asked."""

    def __init__(self, embedder: Embedder, least: float = SAME) -> None:
        self._embedder = embedder
        self._least = least
        self._known: dict[str, Vectors] = {}

    def __call__(self, text: str, others: Sequence[str]) -> int | None:
        """Return which of `others` means the same as `text`, None where none does."""
        fresh = [one for one in dict.fromkeys((text, *others)) if one not in self._known]
        if fresh:
            self._known.update(zip(fresh, self._embedder.embed(fresh), strict=True))
        near = [float(self._known[one] @ self._known[text]) for one in others]
        same = [n for n, one in enumerate(others) if _figures(one) == _figures(text)]
        best = max(same, key=near.__getitem__, default=None)
        return best if best is not None and near[best] >= self._least else None


@lru_cache(maxsize=10_000)
def _figures(text: str) -> frozenset[str]:
    """Return the numbers of a text: unrolling by four and by eight are near, and two ideas."""
    return frozenset(found.lower() for found in _FIGURE.findall(text))
