from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kb.config import Home
from kb.errors import ConfigError
from kb.knowledge import Knowledge, open_knowledge
from kb.records.types import Hit, Query, Scope
from kb.retrieval.retriever import Retriever
from kb.tokens import count_tokens


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


@pytest.mark.slow
def test_copies_are_collapsed_and_a_short_document_has_one_place(tmp_path: Path) -> None:
    shipped = tmp_path / "empty"
    shipped.mkdir()
    notes = tmp_path / "notes"
    notes.mkdir()
    same = "# Prefetch\n\nFetch the next tile of memory while this one is computed.\n"
    (notes / "a.md").write_text(same)
    (notes / "b.md").write_text(same)
    # Too long to stay whole as a plain document would, short enough as a record for one place.
    front = "---\nkind: guide\ntitle: Prefetch at length\n---\n"
    record = "".join(
        f"## Prefetch {place}\n\nTo prefetch the tile, {what}. "
        + " ".join(f"{what.split()[-1]}{word} differs" for word in range(12))
        + ".\n\n"
        for place, what in enumerate(
            ("use two buffers", "issue the copy early", "wait at a barrier", "count the stages")
        )
    )
    (notes / "record.md").write_text(front + record)
    (notes / "other.md").write_text("# Other\n\nThe prefetch distance depends on latency.\n")
    knowledge = open_knowledge(Home(tmp_path / "home"), shipped=shipped)
    knowledge.ingest([notes])
    hits = search(knowledge, "prefetch the next tile", limit=4)
    found = documents(hits)
    assert len({"notes/a.md", "notes/b.md"} & set(found)) == 1
    assert "notes/other.md" in found
    assert found.count("notes/record.md") == 2  # a place was left
    assert len(search(knowledge, "prefetch the next tile", limit=20)) == 6


def test_a_query_is_a_value(knowledge: Knowledge) -> None:
    query = Query(text="memory")
    assert knowledge.retriever.search(query) == knowledge.retriever.search(replace(query))


def test_the_budget_is_counted_as_the_model_counts(knowledge: Knowledge, tmp_path: Path) -> None:
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    words = Tokenizer(WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    words.pre_tokenizer = Whitespace()
    words.save(str(tmp_path / "tokenizer.json"))
    encoding = str(tmp_path)
    every = search(knowledge, "memory of the tile", limit=100)
    for budget in (20, 60, 200):
        hits = search(
            knowledge, "memory of the tile", limit=100, token_budget=budget, encoding=encoding
        )
        spent = sum(count_tokens(hit.passage.text, encoding) for hit in hits)
        assert 0 < spent <= budget
        left = [
            hit.passage.text for hit in every if hit.passage not in [one.passage for one in hits]
        ]
        assert all(count_tokens(text, encoding) > budget - spent for text in left)


@pytest.mark.parametrize("mode", ["bm25", "dense"])
def test_a_half_alone_has_no_place_in_the_other(mode: str, knowledge: Knowledge) -> None:
    hits = search(knowledge, "shared memory bank conflicts", mode=mode)
    assert hits
    assert {name for hit in hits for name in hit.why.ranks} == {mode}
    alone = [hit.why.ranks[mode] for hit in hits]
    assert alone == sorted(alone)


def test_what_is_outside_the_scope_says_in_what(knowledge: Knowledge) -> None:
    scope = Scope(vendor=("intel",), language=("cpp",))
    answer = knowledge.retriever.answer(Query(text="shared memory bank conflicts", scope=scope))
    outside = [hit for hit in answer.hits if hit.widened]
    assert outside
    for hit in outside:
        assert hit.why.misses == hit.passage.scope.misses(scope)
        assert hit.why.misses
    assert all(hit.why.misses == () for hit in answer.hits if not hit.widened)
    assert any("in scope for 8 places: the rest is from outside" in note for note in answer.notes)


def test_what_was_left_out_says_why(knowledge: Knowledge) -> None:
    answer = knowledge.retriever.answer(
        Query(text="memory of the tile", token_budget=30, limit=100)
    )
    assert answer.dropped
    assert all("tokens" in one.reason for one in answer.dropped)


def test_a_question_asked_again_is_not_embedded_again(knowledge: Knowledge) -> None:
    part = knowledge.retriever
    asked: list[str] = []

    class Counting:
        name = part._embedder.name
        dimension = part._embedder.dimension

        def embed(self, texts, progress=None):
            asked.extend(texts)
            return part._embedder.embed(texts)

    retriever = Retriever(part._store, Counting(), part._derived)  # type: ignore[arg-type]
    for _ in range(3):
        retriever.search(Query(text="register blocking"))
    assert asked == ["register blocking"]
