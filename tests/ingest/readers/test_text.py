from __future__ import annotations

import pytest

from ingest.document import read_document
from ingest.readers import ParsedFile
from kb.errors import RecordError

PAGE = """Release Notes
=============

Intro text that runs
over two lines.

1. Installation

Unpack it.

1.1 Requirements

A device. 2 of them are better.

KNOWN PROBLEMS

It waits:

    for (;;)
        wait();

    done();

Contents .......... 12
"""


def read(text: str) -> ParsedFile:
    return read_document(text.encode(), "dir/notes.txt")


def test_headings_are_underlined_numbered_or_capital() -> None:
    assert [" > ".join(one.trail) for one in read(PAGE).sections] == [
        "Release Notes",
        "Release Notes > 1. Installation",
        "Release Notes > 1. Installation > 1.1 Requirements",
        "Release Notes > KNOWN PROBLEMS",
    ]


def test_a_table_of_contents_is_left_out() -> None:
    assert "Contents" not in str(read(PAGE).sections)


def test_indented_lines_are_one_listing_with_its_blank_lines() -> None:
    blocks = [block for one in read(PAGE).sections for block in one.blocks]
    (listing,) = [block.text for block in blocks if block.kind == "fence"]
    assert listing == "```\nfor (;;)\n    wait();\n\ndone();\n```"


@pytest.mark.parametrize(
    "line",
    ["1. Do this first, then that.", "A SHORT SHOUT!", "3 Of these were tried.", "12:30 Lunch"],
)
def test_what_may_be_a_sentence_is_no_heading(line: str) -> None:
    (section,) = read(f"Before.\n\n{line}\n\nAfter.\n").sections
    assert [block.text for block in section.blocks] == ["Before.", line, "After."]


def test_steps_with_nothing_below_them_are_kept_in_their_order() -> None:
    steps = ["1. Install the compiler", "2. Build the kernel", "3. Time it"]
    text = "\n\n".join(["GETTING STARTED", "Do this:", *steps])
    (section, last) = read(text + "\n\nIt says how long.\n").sections
    assert [block.text for block in section.blocks] == ["Do this:", *steps[:2]]
    assert last.trail[-1] == steps[2]
    (section,) = read(text).sections
    assert [block.text for block in section.blocks] == ["Do this:", *steps]


def test_headings_alone_are_refused_with_one_line() -> None:
    with pytest.raises(RecordError, match="found headings only"):
        read("TITLE\n\nOTHER\n")
