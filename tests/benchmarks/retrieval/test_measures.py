from __future__ import annotations

import math

import pytest

from benchmarks.retrieval.measures import Marks, differences, grades, intervals, mark
from benchmarks.retrieval.questions import Question
from kb.records.types import Passage

QUESTION = Question.model_validate(
    {
        "id": "toy",
        "kind": "api",
        "ask": "how do I do it",
        "answers": {3: ["ideas/a#head | ideas/z"], 2: ["ideas/b"], 1: ["page.html~some words"]},
    }
)


def passage(document: str, section: str = "Title > Head", text: str = "text") -> Passage:
    return Passage(
        id=document + section, document=document, section=section, kind="idea", text=text, tokens=1
    )


EXACT, GOOD = passage("kb:ideas/a.md"), passage("kb:ideas/b.md")
RELATED = passage("pages/x/page.html", text="Some  words here")
ELSE = passage("kb:ideas/a.md", "Title > Tail")


def test_the_ideal_ranking_has_full_marks() -> None:
    assert mark(QUESTION, [EXACT, GOOD, RELATED]) == Marks(
        ndcg=1.0, recall=1.0, mrr=1.0, found=1.0, good_recall=1.0
    )


def test_ndcg_is_the_discounted_gain_over_that_of_the_ideal() -> None:
    found = mark(QUESTION, [ELSE, GOOD, EXACT])
    ideal = 7 + 3 / math.log2(3) + 1 / 2
    assert found.ndcg == pytest.approx((3 / math.log2(3) + 7 / 2) / ideal)
    assert (found.recall, found.mrr, found.good_recall) == (1.0, 0.5, 1.0)


def test_an_answer_counts_once_however_often_it_is_repeated() -> None:
    assert grades(QUESTION, [GOOD, GOOD, passage("kb:ideas/z.md"), EXACT]) == [2, 0, 3, 0]


def test_what_comes_after_the_fifth_place_is_not_recalled() -> None:
    found = mark(QUESTION, [*[ELSE] * 5, EXACT])
    assert (found.recall, found.mrr) == (0.0, pytest.approx(1 / 6))


def test_nothing_found_is_nothing() -> None:
    assert mark(QUESTION, []) == Marks(ndcg=0.0, recall=0.0, mrr=0.0, found=0.0, good_recall=0.0)


def test_an_interval_holds_its_mean_and_a_difference_to_itself_is_nothing() -> None:
    marks = [mark(QUESTION, [EXACT]), mark(QUESTION, [GOOD]), mark(QUESTION, [])]
    found = intervals(marks)["ndcg"]
    assert found.low <= found.mean <= found.high
    assert found.low < found.high
    nothing = differences(marks, marks)["ndcg"]
    assert (nothing.low, nothing.mean, nothing.high) == (0.0, 0.0, 0.0)
