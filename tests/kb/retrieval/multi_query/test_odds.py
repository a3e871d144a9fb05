from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.loop_retrieval.fit import logistic
from kb.retrieval.multi_query.odds import Signs, likelihoods

STAGES = ("ideas", "draft", "repair")
PLAIN = Signs(
    kind="idea",
    asked=0.5,
    gain=0.3,
    useful=0.6,
    judged=True,
    cosine=0.5,
    bm25=6.0,
    answers=0,
    tried=False,
)


@pytest.mark.parametrize("stage", STAGES)
def test_what_graded_tasks_and_questions_favour_is_likelier_of_use(stage: str) -> None:
    faint = replace(PLAIN, gain=0.0, useful=0.0, asked=0.1, cosine=0.2, bm25=0.0)
    strong = replace(PLAIN, gain=0.9, useful=1.0, asked=1.0)
    few, some, many = likelihoods([faint, PLAIN, strong], stage)
    assert few.worth < some.worth < many.worth
    assert few.useful < 0.1
    assert many.useful > 0.8


@pytest.mark.parametrize("stage", STAGES)
def test_what_nobody_could_grade_is_weighed_by_the_questions(stage: str) -> None:
    blind = replace(PLAIN, judged=False, gain=0.0, useful=0.0)
    weak, strong = likelihoods([replace(blind, asked=0.05), replace(blind, asked=1.2)], stage)
    assert weak.worth < strong.worth
    told = likelihoods([replace(blind, gain=0.9, useful=0.9)], stage)
    assert told == likelihoods([blind], stage)


@pytest.mark.parametrize("stage", STAGES)
def test_what_is_central_is_of_use_too(stage: str) -> None:
    signs = [replace(PLAIN, gain=one / 10, asked=one / 5) for one in range(10)]
    for one in likelihoods(signs, stage):
        assert 0 <= one.central <= one.worth <= one.useful <= 1


def test_the_fit_finds_the_odds_that_made_the_grades() -> None:
    rng = np.random.default_rng(0)
    signs = np.column_stack([rng.normal(size=(20_000, 2)), np.ones(20_000)])
    odds = signs @ np.array([1.5, -0.5, -1.0])
    graded = (rng.random(len(odds)) < 1 / (1 + np.exp(-odds))).astype(float)
    assert logistic(signs, graded) == pytest.approx([1.5, -0.5, -1.0], abs=0.1)
