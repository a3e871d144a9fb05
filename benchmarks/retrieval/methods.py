"""The ways of ranking that are compared: each half of the retriever alone, both, and with effects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from benchmarks.retrieval.measures import DEPTH, Marks, mark
from benchmarks.retrieval.questions import Question
from kb.types import Mode, Passage, Query, Scope

if TYPE_CHECKING:
    from kb.retrieve import Retriever

METHODS: Mapping[str, Mode] = {"bm25": "bm25", "dense": "dense", "hybrid": "hybrid"}
EFFECT = "hybrid + effect"


def rank(
    retriever: Retriever, questions: Sequence[Question], mode: Mode, scopes: Mapping[str, Scope]
) -> list[list[Passage]]:
    """Return the first passages for each question; all that is not the ranking stays the same."""
    found = []
    for question in questions:
        scope = scopes.get(question.id, Scope())
        query = Query(text=question.ask, scope=scope, limit=DEPTH, mode=mode)
        found.append([hit.passage for hit in retriever.search(query)])
    return found


def measure(questions: Sequence[Question], rankings: Sequence[Sequence[Passage]]) -> list[Marks]:
    """Return the marks of each ranking."""
    return [mark(question, ranking) for question, ranking in zip(questions, rankings, strict=True)]
