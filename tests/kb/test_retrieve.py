from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kb.config import Home
from kb.errors import ConfigError
from kb.knowledge import Knowledge, open_knowledge
from kb.types import Hit, Query, Scope


def documents(hits: list[Hit]) -> list[str]:
    return [hit.passage.document for hit in hits]


def search(knowledge: Knowledge, text: str, **options: object) -> list[Hit]:
    return knowledge.retriever.search(Query(text=text, **options))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("question", "document"),
    [
        ("shared memory bank conflicts", "kb:ideas/pad-shared-memory.md"),
        ("lanes that hit the same bank are serialised", "kb:ideas/pad-shared-memory.md"),
        ("how wide should a load be", "kb:ideas/vector-loads.md"),
        ("float4", "kb:ideas/vector-loads.md"),
        ("register blocking", "kb:ideas/block-registers.md"),
        ("exp overflows to infinity", "kb:guidance/softmax.md"),
        ("toy1 bandwidth", "kb:targets/toy.md"),
    ],
)
def test_a_question_finds_its_passage_first(
    question: str, document: str, knowledge: Knowledge
) -> None:
    assert documents(search(knowledge, question))[0] == document


def test_a_hit_says_where_it_is_from_and_how_it_was_found(knowledge: Knowledge) -> None:
    hit = search(knowledge, "float4", limit=1)[0]
    assert hit.passage.section == "Load sixteen bytes at a time > How"
    assert "sixteen bytes" in hit.passage.text
    assert (hit.dense_rank, hit.lexical_rank) == (1, 1)
    assert hit.score == pytest.approx(3 / 61)  # both halves, and its document


def test_scores_fall_and_nothing_is_left_to_chance(knowledge: Knowledge) -> None:
    hits = search(knowledge, "memory")
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert hits == search(knowledge, "memory")


def test_only_the_kinds_asked_for(knowledge: Knowledge) -> None:
    hits = search(knowledge, "memory", kinds=("guide", "target"))
    assert hits
    assert {hit.passage.kind for hit in hits} <= {"guide", "target"}


def test_what_is_in_scope_comes_first_and_the_rest_is_marked(knowledge: Knowledge) -> None:
    scope = Scope(vendor=("intel",), language=("cpp",))
    hits = search(knowledge, "shared memory bank conflicts", scope=scope)
    inside = [hit for hit in hits if not hit.widened]
    outside = [hit for hit in hits if hit.widened]
    assert hits == inside + outside
    assert all(hit.passage.scope.admits(scope) for hit in inside)
    assert outside[0].passage.document == "kb:ideas/pad-shared-memory.md"


def test_nothing_is_widened_where_the_scope_has_enough(knowledge: Knowledge) -> None:
    hits = search(knowledge, "memory", scope=Scope(vendor=("nvidia",)), limit=2)
    assert len(hits) == 2
    assert not any(hit.widened for hit in hits)


def test_an_answer_to_the_symptom_is_found_whatever_its_words(knowledge: Knowledge) -> None:
    name = "kb:ideas/pad-shared-memory.md"
    assert name not in documents(search(knowledge, "make this kernel faster"))
    asked = search(knowledge, "make this kernel faster", symptoms=("bank-conflicts",))
    assert documents(asked)[0] == name


def test_an_answer_to_more_symptoms_comes_first(knowledge: Knowledge) -> None:
    symptoms = ("bank-conflicts", "memory-bound", "uncoalesced-access")
    asked = search(knowledge, "make this kernel faster", symptoms=symptoms)
    assert documents(asked)[0] == "kb:ideas/vector-loads.md"


@pytest.mark.parametrize("budget", [0, 1, 40, 60, 100, 10_000])
def test_the_token_budget_is_kept_and_used(budget: int, knowledge: Knowledge) -> None:
    every = search(knowledge, "memory of the tile", limit=100)
    hits = search(knowledge, "memory of the tile", limit=100, token_budget=budget)
    spent = sum(hit.passage.tokens for hit in hits)
    assert spent <= budget
    left = [hit.passage.tokens for hit in every if hit not in hits]
    assert all(tokens > budget - spent for tokens in left)


def test_the_limit_is_kept(knowledge: Knowledge) -> None:
    assert len(search(knowledge, "memory", limit=3)) == 3


def test_an_empty_question_is_one_line(knowledge: Knowledge) -> None:
    with pytest.raises(ConfigError, match="the question is empty"):
        search(knowledge, "  ")


def test_words_that_nobody_wrote_find_nothing_by_chance(knowledge: Knowledge) -> None:
    assert search(knowledge, "zxqv") == [] or all(
        hit.lexical_rank is None for hit in search(knowledge, "zxqv")
    )


def test_copies_are_collapsed_and_no_document_takes_every_place(tmp_path: Path) -> None:
    shipped = tmp_path / "empty"
    shipped.mkdir()
    notes = tmp_path / "notes"
    notes.mkdir()
    same = "# Prefetch\n\nFetch the next tile of memory while this one is computed.\n"
    (notes / "a.md").write_text(same)
    (notes / "b.md").write_text(same)
    long = "".join(
        f"## Prefetch {place}\n\nTo prefetch the tile, {what}.\n\n"
        for place, what in enumerate(
            ("use two buffers", "issue the copy early", "wait at a barrier", "count the stages")
        )
    )
    (notes / "long.md").write_text("# Prefetch at length\n\n" + long)
    (notes / "other.md").write_text("# Other\n\nThe prefetch distance depends on latency.\n")
    knowledge = open_knowledge(Home(tmp_path / "home"), shipped=shipped)
    knowledge.ingest([notes])
    hits = search(knowledge, "prefetch the next tile", limit=4)
    found = documents(hits)
    assert len({"notes/a.md", "notes/b.md"} & set(found)) == 1
    assert "notes/other.md" in found
    assert found.count("notes/long.md") == 2
    assert len(search(knowledge, "prefetch the next tile", limit=20)) == 6


def test_a_query_is_a_value(knowledge: Knowledge) -> None:
    query = Query(text="memory")
    assert knowledge.retriever.search(query) == knowledge.retriever.search(replace(query))
