"""The ways of ranking that are compared: each half alone, both plainly fused, all, and with effects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from benchmarks.retrieval.measures import DEPTH, Marks, mark
from benchmarks.retrieval.questions import Question
from kb.records.types import Mode, Passage, Query, Scope
from kb.retrieval.fusion import RRF_K

if TYPE_CHECKING:
    from kb.retrieval.retriever import Retriever

METHODS: Mapping[str, Mode] = {"bm25": "bm25", "dense": "dense", "hybrid": "hybrid"}
HALVES: tuple[Mode, ...] = ("bm25", "dense")
FUSION = "plain fusion"
EFFECT = "hybrid + effect"
PLAIN_DEPTH = 100  # places of each half that the plain fusion knows


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


def fuse_plainly(
    retriever: Retriever, questions: Sequence[Question], scopes: Mapping[str, Scope]
) -> list[list[Passage]]:
    """Return the first passages by the reciprocal ranks of both halves, and nothing else."""
    found = []
    for question in questions:
        total: dict[str, float] = {}
        passages: dict[str, Passage] = {}
        for mode in HALVES:
            scope = scopes.get(question.id, Scope())
            query = Query(text=question.ask, scope=scope, limit=PLAIN_DEPTH, mode=mode)
            for place, hit in enumerate(retriever.search(query), start=1):
                passages[hit.passage.id] = hit.passage
                total[hit.passage.id] = total.get(hit.passage.id, 0.0) + 1 / (RRF_K + place)
        order = sorted(total, key=lambda one: (-total[one], one))
        found.append([passages[one] for one in order[:DEPTH]])
    return found


def measure(questions: Sequence[Question], rankings: Sequence[Sequence[Passage]]) -> list[Marks]:
    """Return the marks of each ranking."""
    return [mark(question, ranking) for question, ranking in zip(questions, rankings, strict=True)]
