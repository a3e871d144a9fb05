from __future__ import annotations

from kb.records.types import Passage
from kb.retrieval.diversify import SHORT, ResultBudget, choose
from kb.retrieval.fusion import RankedRow

WORDS = "copy the tile into shared memory with one thread a row and wait at the barrier before use"


class View:
    """Rows of documents that have a given number of tokens."""

    def __init__(self, passages: list[Passage], tokens: int = SHORT + 1) -> None:
        self.passages = dict(enumerate(passages))
        self._tokens = tokens

    def tokens(self, row: int) -> int:
        return self._tokens

    def read(self, part):
        return {one.row: self.passages[one.row] for one in part}


def passage(text: str, document: str = "a.md", section: str = "A > B") -> Passage:
    return Passage(
        id=f"{document}{section}{text}",
        document=document,
        section=section,
        kind="document",
        text=text,
        tokens=len(text.split()),
    )


def candidates(count: int) -> list[RankedRow]:
    return [
        RankedRow(row=row, ranks={"dense": row + 1}, fused=1 / (row + 1), score=1 / (row + 1))
        for row in range(count)
    ]


def chosen(view: View, limit: int = 8, tokens: int | None = None):
    room = ResultBudget(limit=limit, tokens=tokens, count=lambda one: one.tokens)
    return choose(view, [candidates(len(view.passages))], view.read, room)  # type: ignore[arg-type]


def test_a_passage_inside_another_is_collapsed_and_named() -> None:
    longer = f"{WORDS}. Then compute on it."
    kept, left = chosen(View([passage(longer), passage(WORDS, "b.md")]))
    assert [one.passage.document for one in kept] == ["a.md"]
    assert kept[0].copies == ["b.md: A > B (100% of its words)"]
    assert left[0].reason == "says the same as a.md (100% of its words)"


def test_the_same_words_in_another_order_are_another_passage() -> None:
    turned = " ".join(reversed(WORDS.split()))
    kept, _ = chosen(View([passage(WORDS), passage(turned, "b.md")]))
    assert len(kept) == 2


def test_few_words_are_a_copy_only_word_for_word() -> None:
    kept, left = chosen(View([passage("use float4"), passage("Use float4.", "b.md")]))
    assert len(kept) == 1
    assert left[0].reason == "says the same as a.md (100% of its words)"
    kept, _ = chosen(View([passage("use float4"), passage("take float4", "b.md")]))
    assert len(kept) == 2


def test_a_short_document_has_one_place_and_a_long_one_as_many_as_it_earns() -> None:
    rows = [*(passage(f"{n} x") for n in range(3)), passage("y", "other.md")]
    kept, left = chosen(View(rows, tokens=SHORT), limit=2)
    assert [one.passage.text for one in kept] == ["0 x", "y"]
    assert {one.reason for one in left} == {"another passage of its short document came before it"}
    kept, _ = chosen(View(rows), limit=3)
    assert [one.passage.text for one in kept] == ["0 x", "1 x", "2 x"]
    assert kept[1].reason == "second of a.md"


def test_places_that_are_left_go_to_more_of_a_short_document() -> None:
    kept, _ = chosen(View([passage(f"{n} x") for n in range(5)], tokens=SHORT), limit=4)
    assert [one.candidate.row for one in kept] == [0, 1, 2, 3]
    assert kept[3].reason == "a place was left after every other document"


def test_what_does_not_fit_is_left_out_and_a_smaller_one_taken() -> None:
    view = View([passage("a b c d e f"), passage("g h", "b.md")])
    kept, left = chosen(view, tokens=3)
    assert [one.passage.text for one in kept] == ["g h"]
    assert left[0].reason == "6 tokens, 3 are left"


def test_parts_come_one_after_the_other() -> None:
    view = View([passage("a"), passage("b", "b.md"), passage("c", "c.md")])
    first, second, third = candidates(3)
    room = ResultBudget(limit=2, tokens=None, count=lambda one: one.tokens)
    kept, _ = choose(view, [[third], [first, second]], view.read, room)  # type: ignore[arg-type]
    assert [one.passage.text for one in kept] == ["c", "a"]
