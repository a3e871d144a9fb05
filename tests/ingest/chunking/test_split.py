from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.chunking.split import MAX_DOCUMENT, MAX_PART, MAX_TOKENS, MAX_WHOLE, keep_whole, split
from ingest.readers import Block, Section
from ingest.readers.markdown import cut
from kb.tokens import count_tokens


def words(text: str) -> int:
    return len(text.split())


def section(*blocks: Block) -> list[Section]:
    return [Section(trail=("A", "B"), blocks=blocks)]


def test_short_blocks_of_a_section_stay_together() -> None:
    pieces = split(section(Block(text="one"), Block(text="two")), words)
    assert [(piece.section, piece.text, piece.tokens) for piece in pieces] == [
        ("A > B", "one\n\ntwo", 2)
    ]


def test_sections_that_can_stand_alone_are_not_joined() -> None:
    sections = [
        Section(trail=("T", name), blocks=(Block(text=f"{name} " * 60),)) for name in ("one", "two")
    ]
    assert [piece.section for piece in split(sections, words)] == ["T > one", "T > two"]


def test_tiny_neighbours_become_one_passage() -> None:
    sections = [
        Section(trail=("T", "API", name), blocks=(Block(text=f"Says {name}."),))
        for name in ("first", "second")
    ]
    elsewhere = Section(trail=("T", "Other", "third"), blocks=(Block(text="Says third."),))
    pieces = split([*sections, elsewhere], words)
    assert [(piece.section, piece.text) for piece in pieces] == [
        ("T > API > first, second", "**first**: Says first.\n\n**second**: Says second."),
        ("T > Other > third", "Says third."),
    ]


def test_a_short_plain_document_stays_one_passage() -> None:
    sections = [
        Section(trail=("T",), blocks=(Block(text="Summary."),)),
        Section(trail=("T", "Why"), blocks=(Block(text="why " * 60),)),
        Section(trail=("T", "Example"), blocks=(Block(text="```\nx\n```", kind="fence"),)),
    ]
    piece = keep_whole(sections, words)
    assert piece is not None
    assert piece.section == "T > Why, Example"
    assert piece.text.startswith("Summary.\n\n**Why**: why")
    assert piece.text.endswith("**Example**\n\n```\nx\n```")
    assert len(split(sections, words)) == 3
    long = Section(trail=("T", "More"), blocks=(Block(text="more " * MAX_DOCUMENT),))
    assert keep_whole([*sections, long], words) is None


def test_tiny_functions_keep_their_own_passage() -> None:
    sections = [
        Section(trail=("m.py", name), blocks=(Block(text=f"def {name}(): ...", kind="code"),))
        for name in "ab"
    ]
    assert [piece.section for piece in split(sections, words)] == ["m.py > a", "m.py > b"]


def test_a_passage_knows_its_pages_and_flags() -> None:
    first = Block(text="one", page=3, flags=("suspicious",))
    (piece,) = split(section(first, Block(text="two", page=4)), words)
    assert (piece.pages, piece.flags) == ((3, 4), ("suspicious",))
    (piece,) = split(section(Block(text="one")), words)
    assert piece.pages is None


def test_a_listing_takes_the_line_that_leads_up_to_it_along() -> None:
    code = "```\n" + "word " * 300 + "\n```"
    before, lead = Block(text="word " * 100), Block(text="As follows:")
    pieces = split(section(before, lead, Block(text=code, kind="fence")), words)
    assert [piece.text for piece in pieces] == [before.text, f"As follows:\n\n{code}"]


def test_a_fence_that_fits_alone_stays_whole() -> None:
    code = "```cpp\n" + "\n\n".join(f"x{n} = {n};" for n in range(100)) + "\n```"
    before = Block(text="word " * 200)
    pieces = split(section(before, Block(text=code, kind="fence")), words)
    assert [piece.text for piece in pieces][1] == code


def test_a_larger_fence_is_cut_into_fences() -> None:
    lines = [f"line {n} of the code" for n in range(300)]
    code = "````cpp\n" + "\n".join(lines) + "\n````"
    pieces = split(section(Block(text=code, kind="fence")), words)
    assert len(pieces) > 1
    kept: list[str] = []
    for piece in pieces:
        inner = piece.text.split("\n")
        assert (inner[0], inner[-1]) == ("````cpp", "````")
        kept += inner[1:-1]
    assert kept == lines


def test_a_larger_table_repeats_its_header() -> None:
    rows = [f"| {n} | word word |" for n in range(200)]
    table = "\n".join(["| a | b |", "| --- | --- |", *rows])
    pieces = split(section(Block(text=table, kind="table")), words)
    assert len(pieces) > 1
    assert all(piece.text.startswith("| a | b |\n| --- | --- |\n| ") for piece in pieces)
    assert [row for piece in pieces for row in piece.text.split("\n")[2:]] == rows


def test_code_is_cut_at_blank_lines() -> None:
    groups = ["\n".join(f"group {n} line {m}" for m in range(20)) for n in range(9)]
    pieces = split(section(Block(text="\n\n".join(groups), kind="code")), words)
    assert len(pieces) > 1
    assert "\n\n".join(piece.text for piece in pieces) == "\n\n".join(groups)


def test_one_endless_line_is_cut_too() -> None:
    pieces = split(section(Block(text="x = 1; " * 3000, kind="code")), count_tokens)
    assert all(piece.tokens <= MAX_PART + 1 for piece in pieces)
    assert sum(piece.text.count("x = 1;") for piece in pieces) >= 2900


PROSE = st.lists(st.text("ab c.\n", min_size=1, max_size=1500), min_size=1, max_size=5)


@settings(max_examples=40, deadline=None)
@given(PROSE)
def test_no_prose_is_lost_and_none_is_too_long(texts: list[str]) -> None:
    body = "\n\n".join(texts)
    sections = cut(body, "T")
    pieces = split(sections, words)
    kept = "".join("".join(piece.text.split()) for piece in pieces)
    told = "".join("".join(block.text.split()) for one in sections for block in one.blocks)
    assert kept == told
    for piece in pieces:
        assert words(f"{piece.section} {piece.text}") <= MAX_TOKENS
        assert piece.tokens == words(piece.text)


def test_a_first_row_of_prose_is_not_repeated() -> None:
    rows = [f"| {'word ' * 200}|", "| --- |", *(f"| {n} {'word ' * 20}|" for n in range(40))]
    pieces = split(section(Block(text="\n".join(rows), kind="table")), words)
    assert sum(piece.text.count("| --- |") for piece in pieces) == 1


@pytest.mark.parametrize("kind", ["fence", "table", "code"])
def test_the_limit_of_a_whole_block_is_kept(kind: str) -> None:
    text = "\n".join(f"| a | {'word ' * 10}|" for _ in range(400))
    for piece in split(section(Block(text=text, kind=kind)), words):  # type: ignore[arg-type]
        assert piece.tokens <= MAX_WHOLE


def test_a_passage_has_the_first_and_the_last_page_of_its_blocks() -> None:
    table = Block(text="| a |\n| --- |\n| 1 |", kind="table", page=3, end=5)
    pieces = split([Section(trail=("T",), blocks=(Block(text="Figures:", page=2), table))], len)
    assert [piece.pages for piece in pieces] == [(2, 5)]
