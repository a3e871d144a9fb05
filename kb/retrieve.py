"""From a question to passages: rankings fused, filtered by scope, diversified, cut to size."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from kb.derive import Derived
from kb.embedders import Embedder
from kb.errors import ConfigError
from kb.progress import Progress, silent
from kb.store import Store
from kb.types import Hit, Passage, Query, Scope

if TYPE_CHECKING:
    import numpy as np

    from kb.indexes import Mask, Ranked
    from kb.indexes.files import Index, Source

DEPTH = 100  # places of each ranking that are fused
RRF_K = 60.0  # Cormack, Clarke and Buettcher, SIGIR 2009
MIN_COSINE = 0.2  # below it MiniLM's neighbours are chance
MAX_GAIN = math.log(2.0)  # measured effects move a passage by a factor of two at most
SAME_COSINE = 0.97  # two passages this close say the same
PER_DOCUMENT = 2  # passages of one document before others had their turn


@dataclass(frozen=True, slots=True)
class _Found:
    row: int
    score: float
    dense_rank: int | None
    lexical_rank: int | None
    widened: bool = False


class Retriever:
    """Finds passages.

    Args:
        gains: measured effect of ideas by name, as shrunken log gains: positive rises.
        progress: told about embedding and indexing where something has to be done first.
    """

    def __init__(
        self,
        store: Store,
        embedder: Embedder,
        derived: Derived,
        gains: Mapping[str, float] | None = None,
        progress: Progress = silent,
    ) -> None:
        self._store = store
        self._embedder = embedder
        self._derived = derived
        self._gains = gains or {}
        self._progress = progress

    def search(self, query: Query) -> list[Hit]:
        """Return the passages that answer `query`, best first, without chance in the order.

        Passages outside the scope asked for follow, marked, where those inside are too few.

        Raises:
            ConfigError: the question has no words.
            StoreError: the knowledge base cannot be read or indexed.
        """
        if not query.text.strip():
            raise ConfigError("the question is empty: expected words to look for")
        index = self._derived.current(self._progress)
        if not index.ids:
            return []
        found = self._rank(index, query)
        chosen = _diverse(index, found, query.limit, query.token_budget)
        passages = self._store.passages([index.ids[one.row] for one in chosen])
        hits = ((one, passages.get(index.ids[one.row])) for one in chosen)
        return [_hit(one, passage) for one, passage in hits if passage is not None]

    def _rank(self, index: Index, query: Query) -> list[_Found]:
        """Rank what is in scope, then what is not."""
        vector = self._embedder.embed([query.text])[0]
        kind = _mask(index, [_wanted(source, query.kinds) for source in index.sources])
        scope = _mask(index, [source.scope.admits(query.scope) for source in index.sources])
        inside = self._fuse(index, query, vector, kind & scope)
        if query.scope == Scope() or len(inside) >= query.limit:
            return inside
        outside = self._fuse(index, query, vector, kind & ~scope)
        return [*inside, *(replace(one, widened=True) for one in outside)]

    def _fuse(self, index: Index, query: Query, vector: np.ndarray, among: Mask) -> list[_Found]:
        near = [one for one in index.dense.rank(vector, among, DEPTH) if one.score >= MIN_COSINE]
        dense = _places(near)
        lexical = _places(index.lexical.rank(query.text, among, DEPTH))
        answering = _places(_answering(index, query, vector, among))
        found = []
        for row in dense.keys() | lexical.keys() | answering.keys():
            ranks = (dense.get(row), lexical.get(row))
            places = (*ranks, answering.get(row))
            fused = sum(1.0 / (RRF_K + place) for place in places if place is not None)
            score = fused * self._factor(index.sources[index.source_of[row]])
            found.append(_Found(row, score, *ranks))
        return sorted(found, key=lambda one: (-one.score, index.ids[one.row]))

    def _factor(self, source: Source) -> float:
        """Return the factor by which its measured effect raises a document."""
        gain = self._gains.get(PurePosixPath(source.shown).stem, 0.0)
        return math.exp(max(-MAX_GAIN, min(MAX_GAIN, gain)))


def _answering(index: Index, query: Query, vector: np.ndarray, among: Mask) -> list[Ranked]:
    """Rank what answers the symptoms asked for, in whatever words: most symptoms first."""
    if not query.symptoms:
        return []
    shared = [len(set(source.symptoms) & set(query.symptoms)) for source in index.sources]
    answers = _mask(index, [count > 0 for count in shared])
    ranked = index.dense.rank(vector, among & answers, DEPTH)
    return sorted(ranked, key=lambda one: -shared[index.source_of[one.row]])


def _wanted(source: Source, kinds: Sequence[str]) -> bool:
    return not kinds or source.kind in kinds


def _mask(index: Index, admitted: Sequence[bool]) -> Mask:
    import numpy as np

    return np.array(admitted, bool)[np.array(index.source_of, np.intp)]


def _places(ranked: Iterable[Ranked]) -> dict[int, int]:
    return {one.row: place for place, one in enumerate(ranked, start=1)}


def _diverse(index: Index, found: Sequence[_Found], limit: int, budget: int | None) -> list[_Found]:
    """Choose from the best down, leaving out what repeats and what does not fit.

    A document gives `PER_DOCUMENT` passages first; more follow only where places are left. What
    is out of scope never comes before what is in scope.
    """
    chosen: list[_Found] = []
    left = math.inf if budget is None else budget
    for widened in (False, True):
        part = [one for one in found if one.widened == widened]
        for one in _in_turns(index, part):
            cost = index.tokens[one.row]
            if len(chosen) < limit and cost <= left and not _repeats(index, one, chosen):
                chosen.append(one)
                left -= cost
    order = {one.row: place for place, one in enumerate(found)}
    return sorted(chosen, key=lambda one: order[one.row])


def _in_turns(index: Index, found: Sequence[_Found]) -> list[_Found]:
    first: list[_Found] = []
    rest: list[_Found] = []
    taken: dict[int, int] = {}
    for one in found:
        source = index.source_of[one.row]
        taken[source] = taken.get(source, 0) + 1
        (first if taken[source] <= PER_DOCUMENT else rest).append(one)
    return [*first, *rest]


def _repeats(index: Index, one: _Found, chosen: Sequence[_Found]) -> bool:
    vector = index.vectors[one.row]
    return any(float(vector @ index.vectors[other.row]) >= SAME_COSINE for other in chosen)


def _hit(one: _Found, passage: Passage) -> Hit:
    return Hit(
        passage=passage,
        score=one.score,
        dense_rank=one.dense_rank,
        lexical_rank=one.lexical_rank,
        widened=one.widened,
    )
