from __future__ import annotations

import pytest

from ingest.readers.markdown import Markdown
from kb.errors import RecordError
from kb.records.types import Scope

TARGET = """---
kind: target
title: Toy accelerator
name: toy
vendor: acme
architecture: toy1
device: gpu
languages: [cuda]
units: 4
clock: 1.0e+9
simd_width: 32
peak: {float32: 1.0e+12}
bandwidth: 1.0e+11
---
Slow memory.
"""


def trails(text: str, path: str = "notes.md") -> list[str]:
    return [" > ".join(one.trail) for one in Markdown().read(text, path).sections]


def test_sections_carry_their_breadcrumb() -> None:
    text = "Before.\n\n# Guide\n\nIntro.\n\n## Tiles\n\nA.\n\n### Sizes\n\nB.\n\n## Warps\n\nC.\n"
    assert trails(text) == [
        "Guide",
        "Guide",
        "Guide > Tiles",
        "Guide > Tiles > Sizes",
        "Guide > Warps",
    ]


def test_a_heading_without_text_is_kept_and_one_with_sections_below_it_is_not_said_twice() -> None:
    text = "# T\n\n## Memory\n\n### Use float4 loads\n\n## Tiles\n\nText.\n\n## Unroll\n"
    sections = Markdown().read(text, "x.md").sections
    assert [(one.trail, [block.text for block in one.blocks]) for one in sections] == [
        (("T", "Memory"), ["Use float4 loads"]),
        (("T", "Tiles"), ["Text."]),
        (("T",), ["Unroll"]),
    ]


def test_a_hash_in_a_fence_is_no_heading() -> None:
    reading = Markdown().read("# T\n\n```sh\n# not a heading\n```\n", "x.md")
    assert [[block.kind for block in one.blocks] for one in reading.sections] == [["fence"]]


def test_underlined_and_marked_up_headings_count() -> None:
    assert trails("Title\n=====\n\nA `float4` *load*\n---\n\nText.\n") == [
        "Title > A float4 load",
    ]


def test_code_and_tables_are_blocks_of_their_own() -> None:
    text = "# T\n\nText.\n\n| a |\n| - |\n| 1 |\n\n```c\nx\n```\n\n    indented\n\n- list\n"
    (section,) = Markdown().read(text, "x.md").sections
    assert [block.kind for block in section.blocks] == ["prose", "table", "fence", "fence", "prose"]


def test_a_listing_or_table_in_a_list_is_a_block_of_its_own() -> None:
    text = (
        "# T\n\n- first:\n\n  ```c\n  if (x)\n      y();\n  ```\n\n  more\n- second\n\n"
        "  | a | b |\n  | - | - |\n  | 1 | 2 |\n- third\n\n```c\nz\n```\n"
    )
    (section,) = Markdown().read(text, "x.md").sections
    assert [(block.kind, block.text) for block in section.blocks] == [
        ("prose", "- first:"),
        ("fence", "```c\nif (x)\n    y();\n```"),
        ("prose", "  more\n- second"),
        ("table", "| a | b |\n| - | - |\n| 1 | 2 |"),
        ("prose", "- third"),
        ("fence", "```c\nz\n```"),
    ]


def test_quotations_in_quotations_without_end_are_read() -> None:
    assert "deep" in Markdown().read("> " * 3000 + "deep\n", "x.md").body


def test_a_plain_document_is_named_by_title_heading_or_file() -> None:
    assert Markdown().read("---\ntitle: Named\n---\n# H\n\nx\n", "f.md").title == "Named"
    assert Markdown().read("# H\n\nx\n", "f.md").title == "H"
    assert Markdown().read("x\n", "dir/f.md").title == "f"


def test_two_rules_around_text_are_no_front_matter() -> None:
    reading = Markdown().read("---\nA remark.\n---\nText.\n", "x.md")
    assert reading.kind == "document"
    assert "A remark." in reading.body


def test_a_record_gives_its_scope_and_symptoms() -> None:
    text = (
        "---\nkind: idea\ntitle: Pad it\ncategory: memory access\n"
        "scope: {vendor: [nvidia]}\nsymptoms: [bank-conflicts]\n---\n## How\n\nAdd one.\n"
    )
    reading = Markdown().read(text, "pad.md")
    assert reading.kind == "idea"
    assert reading.scope == Scope(vendor=("nvidia",))
    assert reading.symptoms == ("bank-conflicts",)
    assert [one.trail for one in reading.sections] == [("Pad it", "How")]


def test_the_figures_of_a_target_can_be_found() -> None:
    reading = Markdown().read(TARGET, "toy.md")
    assert reading.scope == Scope(vendor=("acme",), architecture=("toy1",))
    figures = reading.sections[0]
    assert figures.trail == ("Toy accelerator", "Figures")
    assert "bandwidth: 1.0e+11" in figures.blocks[0].text


def test_other_words_go_beside_the_sections_and_not_into_them() -> None:
    asked = "asked:\n  What it costs:\n    - toy price\n\n    - toy fees\nsources: [a manual]\n"
    text = (
        TARGET.replace("bandwidth:", f"{asked}bandwidth:").rstrip()
        + "\n\n## What it costs\n\nMuch.\n"
    )
    reading = Markdown().read(text, "toy.md")
    assert reading.asked == {"What it costs": ("toy price", "toy fees")}
    figures = reading.sections[0].blocks[0].text
    assert "asked" not in figures
    assert "toy price" not in figures
    assert "sources: [a manual]" in figures
    assert "bandwidth: 1.0e+11" in figures


def test_a_list_of_other_words_is_for_the_whole_record() -> None:
    text = (
        "---\nkind: guide\ntitle: Pad it\nasked: [conflicts, thirty-three columns]\n---\nAdd one.\n"
    )
    assert Markdown().read(text, "pad.md").asked == {"": ("conflicts", "thirty-three columns")}


def test_other_words_for_a_heading_that_is_not_there_are_refused() -> None:
    text = "---\nkind: guide\ntitle: Pad it\nasked: {When: [conflicts]}\n---\n## How\n\nAdd one.\n"
    with pytest.raises(RecordError, match="expected a heading of the text, found 'When'"):
        Markdown().read(text, "pad.md")


@pytest.mark.parametrize(
    "front",
    [
        "kind: idea\ntitle: x",
        "kind: nonsense\ntitle: xyz",
        "kind: idea\ntitle: [",
        "a: b: c",
        "kind: guide\ntitle: Pad it\nsources: [2026-02-30]",
        f"kind: guide\ntitle: {'[' * 3000}",
    ],
)
def test_a_broken_front_matter_is_one_line(front: str) -> None:
    with pytest.raises(RecordError) as caught:
        Markdown().read(f"---\n{front}\n---\nText.\n", "x.md")
    assert "\n" not in str(caught.value)


def test_a_recipes_template_is_kept_whole_and_not_quoted_in_pieces() -> None:
    text = (
        "---\nkind: idea\ntitle: Pad it\ncategory: memory access\nrecipe: {pattern: rows}\n---\n"
        "Add one.\n\n```jinja\nfloat tile[{{ pad }}];\n```\n\n```cpp\nfloat x;\n```\n"
    )
    reading = Markdown().read(text, "pad.md")
    assert "{{ pad }}" in reading.body
    quoted = "".join(block.text for one in reading.sections for block in one.blocks)
    assert "{{ pad }}" not in quoted
    assert "float x;" in quoted
