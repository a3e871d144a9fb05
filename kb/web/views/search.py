"""The search box: passages that answer a question, and why they stand where they do."""

from __future__ import annotations

from dataclasses import dataclass

from kb.errors import KbError
from kb.records.types import KINDS, Dropped, Hit
from kb.records.types import Query as Question
from kb.web.sources import Query, Sources
from kb.web.text import address

_LIMIT = 12
_LEFT_OUT = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A passage that was found.

    Attributes:
        document: address of its document's page.
        reasons: why it stands there, a line each.
    """

    hit: Hit
    document: str
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchView:
    """A question and what it found; `problem` says why nothing could be looked for."""

    question: str
    target: str
    operator: str
    symptom: str
    kind: str
    found: tuple[Found, ...]
    left_out: tuple[Dropped, ...]
    more: int
    notes: tuple[str, ...]
    problem: str
    targets: tuple[str, ...]
    operators: tuple[str, ...]
    symptoms: tuple[str, ...]
    kinds: tuple[str, ...]


def search(sources: Sources, query: Query) -> SearchView:
    """Return what a question finds; nothing is asked where there is none."""
    from kb.records.schema import OPERATOR_FAMILIES, SYMPTOMS

    question = query.get("q", "").strip()
    told = {name: query.get(name, "") for name in ("target", "operator", "symptom", "kind")}
    found: tuple[Found, ...] = ()
    left: tuple[Dropped, ...] = ()
    notes: tuple[str, ...] = ()
    problem = ""
    if question:
        try:
            answer = sources.asking.retriever().answer(_query(question, told))
            found = tuple(_found(hit) for hit in answer.hits)
            left, notes = answer.dropped, answer.notes
        except KbError as error:
            problem = str(error)
    return SearchView(
        question=question,
        **told,
        found=found,
        left_out=left[:_LEFT_OUT],
        more=max(0, len(left) - _LEFT_OUT),
        notes=notes,
        problem=problem,
        targets=_targets(sources),
        operators=OPERATOR_FAMILIES,
        symptoms=SYMPTOMS,
        kinds=KINDS,
    )


def _query(question: str, told: dict[str, str]) -> Question:
    from kb.app.queries import SearchOptions, build_query

    return build_query(
        SearchOptions(
            question=question,
            target=told["target"] or None,
            operators=[told["operator"]] if told["operator"] else (),
            symptoms=[told["symptom"]] if told["symptom"] else (),
            kinds=[told["kind"]] if told["kind"] else (),
            limit=_LIMIT,
        )
    )


def _found(hit: Hit) -> Found:
    from kb.app.queries import reasons

    told = (*(f"found for: {one}" for one in hit.why.trail), *reasons(hit))
    return Found(hit=hit, document=address(hit.passage.document), reasons=told)


def _targets(sources: Sources) -> tuple[str, ...]:
    found = sources.store.documents("target")
    return tuple(sorted({one.record.name for one in found if one.record.kind == "target"}))
