from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from kb.retrieve_choose import Room, choose
from kb.retrieve_fuse import Candidate
from kb.types import Passage

WORDS = "copy the tile into shared memory with one thread a row and wait at the barrier before use"


class View:
    """Rows with vectors of their own, and documents of a given size."""

    def __init__(self, passages: list[Passage], size: int = 3, alike: bool = False) -> None:
        count = len(passages)
        vectors = np.ones((count, 1)) if alike else np.eye(max(count, 1))
        self.index = SimpleNamespace(vectors=vectors)
        self.passages = dict(enumerate(passages))
        self._size = size

    def size(self, row: int) -> int:
        return self._size

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


def candidates(count: int) -> list[Candidate]:
    return [
        Candidate(row=row, ranks={"dense": row + 1}, fused=1 / (row + 1), score=1 / (row + 1))
        for row in range(count)
    ]


def chosen(view: View, limit: int = 8, tokens: int | None = None):
    room = Room(limit=limit, tokens=tokens, count=lambda one: one.tokens)
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


def test_short_passages_are_alike_by_meaning_only() -> None:
    kept, _ = chosen(View([passage("use float4"), passage("use float4", "b.md")]))
    assert len(kept) == 2
    kept, left = chosen(View([passage("use float4"), passage("take float4", "b.md")], alike=True))
    assert len(kept) == 1
    assert left[0].reason.endswith("(cosine 1.00)")


def test_documents_take_turns_and_a_long_one_by_its_sections() -> None:
    manual = [passage(f"{n} x", "manual.pdf", f"Manual > Chapter {n} > Part") for n in range(4)]
    other = [passage("y", "other.md")]
    kept, left = chosen(View([*manual, *other], size=3), limit=3)
    assert [one.passage.document for one in kept] == ["manual.pdf", "manual.pdf", "other.md"]
    assert "2 of its section came before it" in {one.reason for one in left}
    kept, _ = chosen(View([*manual, *other], size=500), limit=3)
    assert [one.passage.document for one in kept] == ["manual.pdf"] * 3
    assert kept[0].reason == "first of manual.pdf: Manual > Chapter 0"


def test_places_that_are_left_go_to_who_had_a_turn() -> None:
    kept, _ = chosen(View([passage(f"{n} x") for n in range(5)]), limit=4)
    assert [one.candidate.row for one in kept] == [0, 1, 2, 3]
    assert kept[3].reason == "a place was left after every other section's turn"


def test_what_does_not_fit_is_left_out_and_a_smaller_one_taken() -> None:
    view = View([passage("a b c d e f"), passage("g h", "b.md")])
    kept, left = chosen(view, tokens=3)
    assert [one.passage.text for one in kept] == ["g h"]
    assert left[0].reason == "6 tokens, 3 are left"


def test_parts_come_one_after_the_other() -> None:
    view = View([passage("a"), passage("b", "b.md"), passage("c", "c.md")])
    first, second, third = candidates(3)
    room = Room(limit=2, tokens=None, count=lambda one: one.tokens)
    kept, _ = choose(view, [[third], [first, second]], view.read, room)  # type: ignore[arg-type]
    assert [one.passage.text for one in kept] == ["c", "a"]
