"""The quality of retrieval over the shipped library does not fall below what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from benchmarks.retrieval.measures import Marks, intervals
from benchmarks.retrieval.methods import METHODS, measure, rank
from benchmarks.retrieval.questions import KINDS, Question, answerable, load_questions
from benchmarks.retrieval.runner import all_passages, find_scopes
from kb.config import Home
from kb.knowledge import Knowledge, open_knowledge

# Some questions' worth below docs/retrieval-benchmark.md, so that a record more does not fail it.
FLOOR = {"ndcg": 0.68, "recall": 0.83, "mrr": 0.82}


@pytest.fixture(scope="module")
def knowledge(tmp_path_factory: pytest.TempPathFactory) -> Knowledge:
    """The shipped library, its vectors from the cache that every new home shares."""
    return open_knowledge(Home(tmp_path_factory.mktemp("home")))


@pytest.fixture(scope="module")
def questions() -> Sequence[Question]:
    return load_questions("library")


@pytest.fixture(scope="module")
def marks(knowledge: Knowledge, questions: Sequence[Question]) -> Mapping[str, list[Marks]]:
    scopes = find_scopes(questions)
    return {
        method: measure(questions, rank(knowledge.retriever, questions, mode, scopes))
        for method, mode in METHODS.items()
    }


@pytest.mark.slow
def test_every_answer_is_in_the_library(
    knowledge: Knowledge, questions: Sequence[Question]
) -> None:
    there, absent = answerable(questions, all_passages(knowledge))
    assert absent == []
    assert len(there) == len(questions)


def test_there_are_questions_of_every_kind_and_a_third_is_held_out(
    questions: Sequence[Question],
) -> None:
    every = (*questions, *load_questions("manuals"))
    assert len(every) >= 150
    assert {question.kind for question in questions} == set(KINDS)
    assert 0.25 < sum(question.held_out for question in every) / len(every) < 0.42


@pytest.mark.slow
def test_hybrid_is_as_good_as_it_was(marks: Mapping[str, list[Marks]]) -> None:
    found = intervals(marks["hybrid"])
    assert {
        name: round(found[name].mean, 3) for name in FLOOR if found[name].mean < FLOOR[name]
    } == {}


@pytest.mark.parametrize("half", ["bm25", "dense"])
def test_hybrid_is_better_than_each_half_on_every_measure(
    half: str, marks: Mapping[str, list[Marks]]
) -> None:
    both, one = intervals(marks["hybrid"]), intervals(marks[half])
    assert {name for name in both if both[name].mean <= one[name].mean} == set()
