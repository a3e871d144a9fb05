"""Inquiries over a small library of real records, embedded by the real encoder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kb.config import Home
from kb.knowledge import Knowledge, open_knowledge
from kb.records.types import Scope
from kb.retrieval.multi_query import Expected, Inquiry, Question
from kb.retrieval.multi_query.merge import MergedDocument, worth_giving
from search.prompting.readings import RecordingRetriever

TILES = """\
---
kind: idea
title: Walk over tiles of keys with a running maximum
category: memory access
scope: {operator: [attention, softmax]}
symptoms: [intermediate-traffic]
---
## What it does

Attention reads keys and values in tiles and keeps a running maximum, so that scores are never written.

## When it helps

It helps where the matrix of scores is larger than the cache, which is so from some thousand keys on. One tile of
keys and values should fill half of the second-level cache at most, so that the queries and the running sums stay
beside it. With few keys the scores fit into the cache anyway, and the rescaling of the sums at each tile costs
more than it saves. With a causal mask whole tiles are skipped, which saves half of the work besides.

## How to check

Bytes written equal the output alone.
"""
POOL = """\
---
kind: idea
title: Pool windows separably
category: memory access
scope: {operator: [pooling]}
---
Take maxima along rows, then along columns; windows share their columns.
"""
GPU = """\
---
kind: idea
title: Tiles of keys in shared memory
category: memory access
scope: {language: [triton], operator: [attention]}
---
Attention in Triton loads tiles of keys into shared memory with a running maximum.
"""
GUIDE = """\
---
kind: guide
title: Debugging crashes
---
## Signals

SIGSEGV: an address outside of the tensor, often in the tail of a vector loop.
"""


def lesson(name: str, operators: str, idea: str = "tiles") -> str:
    return f"""\
---
kind: lesson
number: {len(name)}
title: "{name}: tiles of keys won"
scope: {{operator: [{operators}], language: [cpp]}}
idea: {idea}
evidence:
  - {{task: own task, target: zen4, before: 2.0e-03, after: 1.0e-03, low: 1.9, high: 2.1}}
---
Tiles of keys with a running maximum won on this task.
"""


@pytest.fixture(scope="module")
def knowledge(tmp_path_factory: pytest.TempPathFactory) -> Knowledge:
    root = tmp_path_factory.mktemp("inquiry")
    docs = root / "docs"
    for kind, name, text in (
        ("ideas", "tiles", TILES),
        ("ideas", "pool", POOL),
        ("ideas", "gpu-tiles", GPU),
        ("guidance", "debugging-crashes", GUIDE),
    ):
        (docs / kind).mkdir(parents=True, exist_ok=True)
        (docs / kind / f"{name}.md").write_text(text)
    home = Home(root / "home").make()
    for name, operators in (
        ("near", "attention, softmax"),
        ("far", "convolution, pooling, matmul"),
    ):
        (home.lessons / f"{name}.md").write_text(lesson(name, operators))
    return open_knowledge(home, shipped=docs)


KEYS = Question(text="attention over tiles of keys", reason="a pattern", see=("ideas/tiles",))
HERE = Inquiry(
    questions=(KEYS,),
    scope=Scope(language=("cpp",)),
    families=("attention", "softmax"),
    kinds=(("idea", 1.0), ("guide", 1.0), ("lesson", 1.0)),
)


def names(knowledge: Knowledge, inquiry: Inquiry) -> list[str]:
    hits = knowledge.retriever.inquire(inquiry).hits
    return [Path(hit.passage.document).stem for hit in hits]


@pytest.mark.slow
def test_a_record_is_given_once_and_whole(knowledge: Knowledge) -> None:
    (hit,) = [
        hit
        for hit in knowledge.retriever.inquire(HERE).hits
        if hit.passage.document.endswith("tiles.md")
    ]
    assert "running maximum" in hit.passage.text
    assert "How to check" in hit.passage.text
    assert hit.why.trail == ("a pattern",)
    assert hit.passage.section == "Walk over tiles of keys with a running maximum"


def test_a_record_beyond_the_whole_ones_is_given_in_brief(knowledge: Knowledge) -> None:
    (hit,) = [
        hit
        for hit in knowledge.retriever.inquire(replace(HERE, whole=0)).hits
        if hit.passage.document.endswith("tiles.md")
    ]
    assert "Attention reads keys and values in tiles" in hit.passage.text
    assert "[in brief]" in hit.passage.text
    assert "Bytes written" not in hit.passage.text
    whole = names(knowledge, HERE)
    assert names(knowledge, replace(HERE, whole=0)) == whole


def test_what_is_for_another_language_or_other_operators_is_not_given(knowledge: Knowledge) -> None:
    given = names(knowledge, HERE)
    assert "gpu-tiles" not in given
    assert "pool" not in given


def test_a_pattern_may_name_what_its_operators_would_not_admit(knowledge: Knowledge) -> None:
    named = replace(KEYS, see=("ideas/pool", "ideas/tiles"))
    assert "pool" in names(knowledge, replace(HERE, questions=(named,)))
    about_a_fault = replace(named, anywhere=True)
    assert "pool" not in names(knowledge, replace(HERE, questions=(about_a_fault,)))


def test_symptoms_order_and_fetch_nothing(knowledge: Knowledge) -> None:
    crash = Question(text="the process died of SIGSEGV", reason="a fault")
    alone = replace(HERE, questions=(crash,), kinds=(("guide", 1.0),))
    assert names(knowledge, alone) == ["debugging-crashes"]
    with_symptom = replace(alone, symptoms=("intermediate-traffic",))
    assert names(knowledge, with_symptom) == ["debugging-crashes"]
    plain = knowledge.retriever.inquire(HERE).hits[0]
    raised = knowledge.retriever.inquire(replace(HERE, symptoms=("intermediate-traffic",))).hits[0]
    assert raised.score > plain.score
    assert raised.why.kept == "answers intermediate-traffic"


def test_what_was_tried_comes_after(knowledge: Knowledge) -> None:
    plain = knowledge.retriever.inquire(HERE).hits[0]
    tried = knowledge.retriever.inquire(replace(HERE, tried=("ideas/tiles",))).hits
    after = next(hit for hit in tried if hit.passage.id == plain.passage.id)
    assert after.score < plain.score


def test_a_record_whose_pattern_is_not_there_answers_less(knowledge: Knowledge) -> None:
    unnamed = replace(HERE, questions=(replace(KEYS, see=()),))
    full = knowledge.retriever.inquire(unnamed).hits[0]
    elsewhere = replace(unnamed, elsewhere=frozenset({"ideas/tiles"}))
    found = {hit.passage.id: hit for hit in knowledge.retriever.inquire(elsewhere).hits}
    assert full.passage.id not in found or found[full.passage.id].score < full.score


def test_a_lesson_of_near_work_stands_on_its_ideas_page_and_one_of_far_work_nowhere(
    knowledge: Knowledge,
) -> None:
    hits = knowledge.retriever.inquire(HERE).hits
    page = next(hit for hit in hits if hit.passage.document.endswith("tiles.md"))
    assert "Measured here: near: tiles of keys won; 2.00x (1.90 to 2.10) on own task" in (
        page.passage.text
    )
    assert not any(hit.passage.kind == "lesson" for hit in hits)
    assert "far" not in page.passage.text


def test_a_hidden_lesson_is_told_nowhere(knowledge: Knowledge) -> None:
    hidden = replace(HERE, hidden=frozenset({"lessons:near.md"}))
    answer = knowledge.retriever.inquire(hidden)
    assert not any("Measured here" in hit.passage.text for hit in answer.hits)
    assert "lessons:near.md" not in answer.near


def test_what_a_witness_hides_is_not_asked_for(knowledge: Knowledge) -> None:
    witness = RecordingRetriever(knowledge.retriever, frozenset({"lessons:near.md"}))
    assert not any("Measured here" in hit.passage.text for hit in witness.inquire(HERE).hits)
    assert any(
        "Measured here" in h.passage.text
        for h in RecordingRetriever(knowledge.retriever).inquire(HERE).hits
    )


def test_tokens_and_places_are_kept_and_what_is_left_out_is_told(knowledge: Knowledge) -> None:
    small = knowledge.retriever.inquire(replace(HERE, tokens=5))
    assert small.hits == ()
    assert "tokens, 5 are left" in small.dropped[0].reason
    none = knowledge.retriever.inquire(replace(HERE, limit=0))
    assert none.hits == ()


def test_the_same_inquiry_gets_the_same_answer(knowledge: Knowledge) -> None:
    assert knowledge.retriever.inquire(HERE) == knowledge.retriever.inquire(HERE)


def test_nothing_is_given_that_hardly_answers(knowledge: Knowledge) -> None:
    answer = knowledge.retriever.inquire(replace(HERE, questions=(replace(KEYS, weight=0.01),)))
    assert answer.hits == ()
    assert answer.near
    assert worth_giving([]) == []


def expecting(*expected: Expected) -> Inquiry:
    judged = frozenset({"ideas/tiles", "ideas/pool", *(one.record for one in expected)})
    return replace(HERE, expected=expected, judged=judged)


def test_a_record_that_is_expected_to_help_is_given_though_no_question_leads_there(
    knowledge: Knowledge,
) -> None:
    assert "pool" not in names(knowledge, HERE)
    expected = Expected(record="ideas/pool", gain=0.9, useful=0.9, reason="it helped others")
    hits = knowledge.retriever.inquire(expecting(expected)).hits
    (pool,) = [one for one in hits if one.passage.document.endswith("pool.md")]
    assert pool.why.trail == ("it helped others",)


def test_what_is_expected_is_not_given_out_of_scope(knowledge: Knowledge) -> None:
    expected = Expected(record="ideas/gpu-tiles", gain=0.9, useful=0.9, reason="it helped others")
    assert "gpu-tiles" not in names(knowledge, expecting(expected))


def test_a_judged_record_that_hardly_answers_and_hardly_helps_is_left_out(
    knowledge: Knowledge,
) -> None:
    faint = replace(KEYS, weight=0.35)
    assert "tiles" in names(knowledge, replace(HERE, questions=(faint,)))
    doubted = replace(expecting(), questions=(faint,))
    assert "tiles" not in names(knowledge, doubted)


def test_what_graded_tasks_cannot_speak_of_is_weighed_by_the_questions_alone(
    knowledge: Knowledge,
) -> None:
    expected = Expected(record="ideas/tiles", gain=1.0, useful=1.0, reason="it helped others")

    def score(inquiry: Inquiry) -> float:
        hits = knowledge.retriever.inquire(inquiry).hits
        scores = {Path(hit.passage.document).stem: hit.why.fused for hit in hits}
        return scores["debugging-crashes"]

    crash = Question(text="SIGSEGV in the tail of a vector loop", reason="a fault", anywhere=True)
    asked = replace(HERE, questions=(KEYS, crash))
    told = replace(asked, expected=(expected,), judged=frozenset(["ideas/tiles"]))
    assert score(told) == score(asked)


def test_few_are_given_where_more_would_be_useless() -> None:
    def found(central: float, useful: float) -> MergedDocument:
        return MergedDocument(
            document="d", kind="idea", name="ideas/d", score=central, central=central, useful=useful
        )

    sure, doubtful, useless = found(0.9, 0.99), found(0.1, 0.5), found(0.0, 0.05)
    assert worth_giving([sure] * 4 + [useless] * 9) == [sure] * 4
    assert worth_giving([sure] * 4 + [doubtful] * 2 + [useless] * 9) == [sure] * 4 + [doubtful] * 2
    assert worth_giving([doubtful] * 3 + [useless]) == [doubtful] * 3
    assert worth_giving([useless] * 3) == []
