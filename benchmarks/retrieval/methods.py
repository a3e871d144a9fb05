"""The ways of ranking that are compared: each half of the retriever alone, both, and with effects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from benchmarks.retrieval.measures import DEPTH, Marks, mark
from benchmarks.retrieval.questions import Question
from kb.indexes import Ranked
from kb.types import KINDS, Kind, Passage, Query, Scope

if TYPE_CHECKING:
    from kb.indexes import Mask, Vector
    from kb.indexes.files import Index
    from kb.knowledge import Knowledge
    from kb.retrieve import Retriever

METHODS = ("bm25", "dense", "hybrid", "hybrid + effect")


class _Mute:
    """A half of the retriever that finds nothing."""

    def rank(self, of: str | Vector, among: Mask, count: int) -> list[Ranked]:
        return []


class _Half:
    """The indexes without one half, so that all the rest of retrieval stays as it is."""

    def __init__(self, derived: object, muted: str) -> None:
        self._derived = derived
        self._muted = muted

    def current(self, *arguments: object) -> Index:
        index: Index = self._derived.current(*arguments)  # type: ignore[attr-defined]
        return replace(index, **{self._muted: _Mute()})

    def __getattr__(self, name: str) -> object:
        return getattr(self._derived, name)


@contextmanager
def muted(retriever: Retriever, half: str) -> Iterator[None]:
    """Let `retriever` do without ``dense`` or ``lexical`` meanwhile."""
    whole = retriever._derived
    retriever._derived = _Half(whole, half)  # type: ignore[assignment]
    try:
        yield
    finally:
        retriever._derived = whole


def rank(
    knowledge: Knowledge, questions: Sequence[Question], method: str, scopes: dict[str, Scope]
) -> list[list[Passage]]:
    """Return the first passages for each question, by one of `METHODS` without effects."""
    half = {"bm25": "dense", "dense": "lexical"}.get(method)
    if half is None:
        return [_ask(knowledge, question, scopes) for question in questions]
    with muted(knowledge.retriever, half):
        return [_ask(knowledge, question, scopes) for question in questions]


def measure(questions: Sequence[Question], rankings: Sequence[Sequence[Passage]]) -> list[Marks]:
    """Return the marks of each ranking."""
    return [mark(question, ranking) for question, ranking in zip(questions, rankings, strict=True)]


def wanted_kinds(*, pages: bool) -> tuple[Kind, ...]:
    """Return the kinds that a corpus is made of: plain pages, or the library's records."""
    return tuple(kind for kind in KINDS if (kind == "document") == pages)


def _ask(knowledge: Knowledge, question: Question, scopes: dict[str, Scope]) -> list[Passage]:
    query = Query(
        text=question.ask,
        scope=scopes.get(question.id, Scope()),
        limit=DEPTH,
    )
    return [hit.passage for hit in knowledge.retriever.search(query)]
