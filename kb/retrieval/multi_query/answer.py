"""From ranked documents to what a prompt quotes: moved by measured effect, lessons few, cut to size."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kb.records.types import Answer, Dropped, Hit, Passage, Why
from kb.retrieval.effect_estimate import Where, factor
from kb.retrieval.multi_query import DEFAULT, Inquiry
from kb.retrieval.multi_query.lessons import measured_line, select_lessons
from kb.retrieval.multi_query.merge import worth_giving
from kb.retrieval.multi_query.pages import brief, page
from kb.tokens import DEFAULT_ENCODING, count_tokens

if TYPE_CHECKING:
    from kb.records.schema import Document
    from kb.records.types import Effect
    from kb.retrieval.effect_store import Effects
    from kb.retrieval.multi_query.menu import Menu
    from kb.retrieval.multi_query.merge import MergedDocument
    from kb.store.documents import Store

SPARE = 8  # documents that are read beyond the limit, for those that do not fit
MOST, LEAST = 1.25, 0.75  # what measured effects may multiply a score by


def answer_inquiry(
    found: Sequence[MergedDocument],
    inquiry: Inquiry,
    *,
    ids: Sequence[str],
    store: Store,
    menu: Menu,
    effects: Effects | None,
) -> Answer:
    """Choose from ranked documents and return them as pages, best first.

    Args:
        ids: identities of passages by row.
    """
    tuning = DEFAULT
    found = [one for one in found if one.document not in inquiry.hidden]
    known = _effects(found, inquiry, effects)
    ranked = worth_giving(
        sorted(found, key=lambda one: (-one.score * _moved(known, one), one.document)), tuning
    )
    places = int(tuning.lessons * inquiry.limit)
    kept, beside = select_lessons(ranked, _lessons(found, store), inquiry, places)
    count = _counter(inquiry.encoding)
    pages = store.pages([one.document for one in kept[: inquiry.limit + SPARE]])
    hits: list[Hit] = []
    dropped: list[Dropped] = []
    left = inquiry.tokens if inquiry.tokens is not None else 1 << 60
    for one in kept:
        if len(hits) == inquiry.limit:
            dropped.append(_dropped(one, f"{inquiry.limit} documents came before it"))
            continue
        passages = pages.get(one.document)
        if not passages:
            continue
        best = {ids[row]: place for place, row in enumerate(one.rows)}
        whole = len(hits) < inquiry.whole
        shown = page if whole else brief
        lines = [*map(measured_line, beside.get(one.document, ()))]
        if known_of := menu.measured(one.document, inquiry, whole=whole):
            lines.insert(0, known_of)
        passage = _with_lines(shown(one, passages, best, count), lines, count)
        if passage.tokens > left:
            dropped.append(_dropped(one, f"{passage.tokens} tokens, {left} are left"))
            continue
        left -= passage.tokens
        hits.append(_hit(one, passage, known.get(one.document), _moved(known, one)))
    given = {hit.passage.document for hit in hits}
    near = tuple(one.document for one in found if one.document not in given)
    entries = menu.entries(inquiry, near, hits) if inquiry.menu else ()
    return Answer(hits=tuple(hits), dropped=tuple(dropped), near=near, menu=entries)


def _lessons(found: Sequence[MergedDocument], store: Store) -> Mapping[str, Document]:
    """Return the lessons among what was found, by their paths."""
    learned = {one.document for one in found if one.kind == "lesson"}
    every = store.documents("lesson") if learned else ()
    return {one.path: one for one in every if one.path in learned}


def _effects(
    found: Sequence[MergedDocument], inquiry: Inquiry, effects: Effects | None
) -> Mapping[str, Effect]:
    if effects is None or not found:
        return {}
    scope = inquiry.scope
    where = Where(
        families=frozenset(inquiry.operators or inquiry.families),
        architecture=scope.architecture[0] if len(scope.architecture) == 1 else "",
        bottleneck=inquiry.symptoms[0] if inquiry.symptoms else "",
    )
    return effects.of([one.document for one in found], where)


def _moved(known: Mapping[str, Effect], one: MergedDocument) -> float:
    """Return what a score is multiplied by: measurements of other operator families move nothing."""
    effect = known.get(one.document)
    if effect is None or not (effect.weights[0] or effect.weights[1] or effect.lift):
        return 1.0
    return max(LEAST, min(MOST, factor(replace(effect, bonus=0.0))))


def _with_lines(found: Passage, lines: Sequence[str], count: Callable[[str], int]) -> Passage:
    if not lines:
        return found
    text = "\n\n".join((found.text, *lines))
    return replace(found, text=text, tokens=count(text))


def _hit(one: MergedDocument, passage: Passage, effect: Effect | None, moved: float) -> Hit:
    why = Why(
        cosine=one.cosine,
        bm25=one.bm25,
        fused=one.score,
        effect=effect,
        factor=moved,
        trail=one.trail,
        kept=f"answers {', '.join(one.answers)}" if one.answers else "",
    )
    return Hit(
        passage=passage, score=one.score * moved, dense_rank=None, lexical_rank=None, why=why
    )


def _dropped(one: MergedDocument, reason: str) -> Dropped:
    return Dropped(document=one.document, section="", reason=reason)


def _counter(encoding: str | None) -> Callable[[str], int]:
    return lambda text: count_tokens(text, encoding or DEFAULT_ENCODING)
