"""From a question to passages: rankings fused, filtered by scope, weighted by what use gained.

The order of the work: the halves are ranked among what is in scope (`retrieve_fuse`), measured
effects move them (`effect`), and what repeats or does not fit is left out (`retrieve_choose`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kb.embedders import Embedder
from kb.errors import ConfigError
from kb.indexes.sync import IndexSync
from kb.progress import Progress, silent
from kb.records.types import Answer, Dropped, Hit, Passage, Query, Scope, Why
from kb.retrieval.effect_estimate import Where, factor
from kb.retrieval.effect_store import Effects, subject_of
from kb.retrieval.multi_query import Inquiry
from kb.store.documents import Store
from kb.tokens import DEFAULT_ENCODING, count_tokens

if TYPE_CHECKING:
    from kb.indexes import Mask, Vector
    from kb.indexes.files import Index
    from kb.retrieval.diversify import Kept, LeftOut, ResultBudget
    from kb.retrieval.filters import View
    from kb.retrieval.fusion import RankedRow
    from kb.retrieval.multi_query.menu import Menu
    from kb.retrieval.multi_query.merge import MergedDocument, Merger
    from kb.retrieval.multi_query.odds import Signs

FAR = 0.995  # what a step away from the scope asked for leaves of a score: two cost half a place
REMEMBERED = 256  # questions whose vectors are kept


class Retriever:
    """Finds passages.

    Args:
        embedder: embeds questions, as the passages of the index were embedded.
        effects: what the use of passages gained; None where nothing is known of it.
        progress: told about embedding and indexing where something has to be done first.
    """

    def __init__(
        self,
        store: Store,
        embedder: Embedder,
        derived: IndexSync,
        effects: Effects | None = None,
        *,
        progress: Progress = silent,
    ) -> None:
        self._store = store
        self._embedder = embedder
        self._derived = derived
        self._effects = effects
        self._progress = progress
        self._vectors: dict[tuple[str, str], Vector] = {}
        self._now: View | None = None
        self._merger: tuple[View, Merger] | None = None
        self._menu: tuple[str, Menu] | None = None

    def search(self, query: Query) -> list[Hit]:
        """Return the passages that answer `query`, best first, without chance in the order.

        Passages outside the scope asked for follow, marked, where those inside are too few.

        Raises:
            ConfigError: the question has no words.
            StoreError: the knowledge base cannot be read or indexed.
        """
        return list(self.answer(query).hits)

    def answer(self, query: Query) -> Answer:
        """Return the hits of `query` with what was left out and why.

        Raises:
            ConfigError: the question has no words, or a setting cannot be used.
            StoreError: the knowledge base cannot be read or indexed.
        """
        from kb.retrieval.diversify import choose

        if not query.text.strip():
            raise ConfigError("the question is empty: expected words to look for")
        view = self._view(self._derived.current(self._progress))
        if not view.index.ids:
            return Answer(hits=(), notes=("the knowledge base is empty",))
        inside, outside, notes = self._ranked(view, query)
        kept, left = choose(
            view, (inside, outside), lambda part: self._read(view, part), _room(query)
        )
        return Answer(
            hits=tuple(_hit(view, query, one) for one in kept),
            dropped=tuple(map(_dropped, left)),
            notes=notes,
        )

    def inquire(self, inquiry: Inquiry) -> Answer:
        """Return the documents that the questions of `inquiry` lead to, whole where they are short.

        Raises:
            StoreError: the knowledge base cannot be read or indexed.
        """
        from kb.retrieval.multi_query.answer import answer_inquiry

        view = self._view(self._derived.current(self._progress))
        if not view.index.ids:
            return Answer(hits=(), notes=("the knowledge base is empty",))
        return answer_inquiry(
            self._merger_now(view).merge(inquiry),
            inquiry,
            ids=view.index.ids,
            store=self._store,
            menu=self._menu_now(),
            effects=self._effects,
        )

    def signs(self, inquiry: Inquiry) -> list[tuple[MergedDocument, Signs]]:
        """Return every document that `inquiry` leads to, and what is known of it before it is weighed."""
        view = self._view(self._derived.current(self._progress))
        return self._merger_now(view).signs(inquiry)

    def _merger_now(self, view: View) -> Merger:
        from kb.retrieval.multi_query.merge import Merger

        if self._merger is None or self._merger[0] is not view:
            self._merger = (view, Merger(view, self._embed))
        return self._merger[1]

    def _menu_now(self) -> Menu:
        from kb.retrieval.multi_query.menu import Menu

        generation = self._store.generation()
        if self._menu is None or self._menu[0] != generation:
            self._menu = (generation, Menu(self._store))
        return self._menu[1]

    def _ranked(
        self, view: View, query: Query
    ) -> tuple[list[RankedRow], list[RankedRow], tuple[str, ...]]:
        """Rank what is in scope, and what is not where the former is too little."""
        vector = None if query.mode == "bm25" else self._embed(query.text)
        kinds = view.of_kinds(query.kinds)
        outside = view.outside(query.scope)
        inside = self._weighed(view, query, vector, kinds & (outside == 0))
        if query.scope == Scope() or len(inside) >= query.limit:
            return inside, [], ()
        far = self._weighed(view, query, vector, kinds & (outside > 0))
        away = [(one, int(outside[one.row])) for one in far]
        far = [replace(one, score=one.score * FAR**steps, far=steps) for one, steps in away]
        far.sort(key=lambda one: (-one.score, view.index.ids[one.row]))
        told = f"{len(inside)} passages in scope for {query.limit} places: the rest is from outside"
        return inside, far, (told,)

    def _weighed(
        self, view: View, query: Query, vector: Vector | None, among: Mask
    ) -> list[RankedRow]:
        """Rank rows of `among`: fused, and moved by measured effect."""
        from kb.retrieval.fusion import fuse, is_fused, rank, together

        if not among.any():
            return []
        rankings = rank(view, query, vector, among)
        if is_fused(query.mode):
            rankings = together(view, rankings)
        found = fuse(rankings, view.index.ids)
        if query.mode == "hybrid+effect" and self._effects is not None:
            found = _moved(view, query, found, self._effects)
        return found

    def _embed(self, text: str) -> Vector:
        key = (self._embedder.name, text)
        vector = self._vectors.pop(key, None)
        if vector is None:
            vector = self._embedder.embed([text])[0]
        self._vectors[key] = vector
        if len(self._vectors) > REMEMBERED:
            del self._vectors[next(iter(self._vectors))]
        return vector

    def _view(self, index: Index) -> View:
        from kb.retrieval.filters import View

        if self._now is None or self._now.index is not index:
            self._now = View(index)
        return self._now

    def _read(self, view: View, found: Sequence[RankedRow]) -> Mapping[int, Passage]:
        ids = {view.index.ids[one.row]: one.row for one in found}
        return {ids[one]: passage for one, passage in self._store.passages(list(ids)).items()}


def _moved(
    view: View, query: Query, found: Sequence[RankedRow], effects: Effects
) -> list[RankedRow]:
    """Order candidates by their fused score times what their use gained."""
    ids = view.index.ids
    subjects = {
        one.row: subject_of(view.kind(one.row), view.document(one.row), ids[one.row])
        for one in found
    }
    known = effects.of(subjects.values(), where_of(query))
    if not known:
        return list(found)
    moved = []
    for one in found:
        effect = known.get(subjects[one.row])
        lift = 1.0 if effect is None else factor(effect)
        moved.append(replace(one, score=one.fused * lift, effect=effect, factor=lift))
    return sorted(moved, key=lambda one: (-one.score, ids[one.row]))


def _room(query: Query) -> ResultBudget:
    """Return how much a query may be given, counted as the model counts that will read it."""
    from kb.retrieval.diversify import ResultBudget

    encoding = query.encoding

    def count(passage: Passage) -> int:
        if encoding is None or encoding == DEFAULT_ENCODING:
            return passage.tokens
        return count_tokens(passage.text, encoding)

    return ResultBudget(limit=query.limit, tokens=query.token_budget, count=count)


def _hit(view: View, query: Query, kept: Kept) -> Hit:
    one = kept.candidate
    return Hit(
        passage=kept.passage,
        score=one.score,
        dense_rank=one.ranks.get("dense"),
        lexical_rank=one.ranks.get("bm25"),
        widened=one.far > 0,
        why=Why(
            cosine=one.cosine,
            bm25=one.bm25,
            ranks=one.ranks,
            fused=one.fused,
            effect=one.effect,
            factor=one.factor,
            misses=view.misses(one.row, query.scope) if one.far else (),
            copies=tuple(kept.copies),
            kept=kept.reason,
        ),
    )


def _dropped(left: LeftOut) -> Dropped:
    passage = left.passage
    return Dropped(document=passage.document, section=passage.section, reason=left.reason)


def where_of(query: Query) -> Where:
    """Return where a question comes from, as far as it says."""
    scope = query.scope
    return Where(
        families=frozenset(scope.operator),
        architecture=scope.architecture[0] if len(scope.architecture) == 1 else "",
        bottleneck=query.symptoms[0] if query.symptoms else "",
    )
