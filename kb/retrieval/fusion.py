"""Rankings of one question, fused by reciprocal rank."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from kb.records.synonyms import other_names

if TYPE_CHECKING:
    from kb.indexes import Mask, Ranked, Vector
    from kb.records.types import Effect, Mode, Query
    from kb.retrieval.filters import View

T = TypeVar("T")
DEPTH = 100  # places of each ranking that are fused
RRF_K = 60.0  # Cormack, Clarke and Buettcher, SIGIR 2009
MIN_COSINE = 0.2  # below it MiniLM's neighbours are chance
PARTS = 3  # best passages of a document that speak for it
# What a place in each ranking counts. Other names of what is asked for find what the question's own
# words miss, and much else: at half a vote and more they cost precision (docs/retrieval-benchmark.md).
WEIGHTS: Mapping[str, float] = {
    "dense": 1.0,
    "bm25": 1.0,
    "other names": 0.25,
    "document": 1.0,
    "symptoms": 1.0,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedRow:
    """A row with its place in every ranking.

    Attributes:
        fused: reciprocal ranks summed.
        score: what it is ordered by in the end.
        effect, factor: what its use gained, and what that multiplies `fused` by.
        far: how far it is from the scope asked for; 0 is inside.
    """

    row: int
    ranks: Mapping[str, int]
    fused: float
    score: float
    cosine: float | None = None
    bm25: float | None = None
    effect: Effect | None = None
    factor: float = 1.0
    far: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rankings:
    """The rankings of one question, by name, and the scores of the two halves by row."""

    places: Mapping[str, Mapping[int, int]]
    cosines: Mapping[int, float] = field(default_factory=dict)
    bm25: Mapping[int, float] = field(default_factory=dict)


def rank(view: View, query: Query, vector: Vector | None, among: Mask) -> Rankings:
    """Rank rows of `among` by every half that the mode of `query` asks for.

    A passage stands where the best of its own words and of those by which it is asked for stands.

    Args:
        vector: of the question; None where the mode does without.
    """
    index, asked = view.index, view.asked
    wide, depth = asked.widened(among), asked.depth(DEPTH)
    places: dict[str, Mapping[int, int]] = {}
    near: list[Ranked] = []
    words: list[Ranked] = []
    if vector is not None:
        found = asked.folded(index.dense.rank(vector, wide, depth), DEPTH)
        near = [one for one in found if one.score >= MIN_COSINE]
        places["dense"] = placed(one.row for one in near)
    if query.mode != "dense":
        words = asked.folded(index.lexical.rank(query.text, wide, depth), DEPTH)
        places["bm25"] = placed(one.row for one in words)
    if query.symptoms and is_fused(query.mode) and vector is not None:
        places["symptoms"] = placed(_answering(view, query.symptoms, vector, among))
    if is_fused(query.mode) and (names := other_names(query.text)):
        also = asked.folded(index.lexical.rank(" ".join(names), wide, depth), DEPTH)
        places["other names"] = placed(one.row for one in also)
    return Rankings(
        places=places,
        cosines={one.row: one.score for one in near},
        bm25={one.row: one.score for one in words},
    )


def fuse(rankings: Rankings, ids: Sequence[str]) -> list[RankedRow]:
    """Return what the rankings hold, best first, ties by identity."""
    total = _totals(rankings)
    return [
        RankedRow(
            row=row,
            ranks={name: places[row] for name, places in rankings.places.items() if row in places},
            fused=total[row],
            score=total[row],
            cosine=rankings.cosines.get(row),
            bm25=rankings.bm25.get(row),
        )
        for row in sorted(total, key=lambda row: (-total[row], ids[row]))
    ]


def together(view: View, rankings: Rankings) -> Rankings:
    """Rank documents by what their best passages add up to; each passage has its document's place.

    Sections are cut small: several that answer a little say more about a document than one does. A
    document that is one passage counts as if all its parts said the same, or it would lose to all others.
    """
    total = _totals(rankings)
    documents = {row: view.document(row) for row in total}
    best: dict[str, list[float]] = {}
    for row in sorted(total, key=lambda row: -total[row]):
        parts = best.setdefault(documents[row], [])
        if len(parts) < PARTS:
            parts.extend([total[row]] * (PARTS if view.size(row) == 1 else 1))
    sums = {document: sum(parts) for document, parts in best.items()}
    order = placed(sorted(sums.values(), reverse=True))  # equal sums share a place
    places = {row: order[sums[document]] for row, document in documents.items()}
    return replace(rankings, places={**rankings.places, "document": places})


def _totals(rankings: Rankings) -> dict[int, float]:
    """Return the reciprocal ranks of each row, weighted and summed."""
    total: dict[int, float] = {}
    for name, places in rankings.places.items():
        weight = WEIGHTS[name]
        for row, place in places.items():
            total[row] = total.get(row, 0.0) + weight / (RRF_K + place)
    return total


def is_fused(mode: Mode) -> bool:
    """Say whether a mode asks more than one half."""
    return mode in ("hybrid", "hybrid+effect")


def placed(ranked: Iterable[T]) -> dict[T, int]:
    """Return the place of each row or document, 1 for the first."""
    return {one: place for place, one in enumerate(dict.fromkeys(ranked), start=1)}


def _answering(view: View, symptoms: tuple[str, ...], vector: Vector, among: Mask) -> list[int]:
    """Rank what answers the symptoms asked for, in whatever words: most symptoms first."""
    shared = view.answering(symptoms)
    ranked = view.index.dense.rank(vector, np.logical_and(among, shared > 0), DEPTH)
    return [one.row for one in sorted(ranked, key=lambda one: -int(shared[one.row]))]
