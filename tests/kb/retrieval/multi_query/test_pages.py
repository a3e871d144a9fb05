from __future__ import annotations

import pytest

from kb.records.types import Passage
from kb.retrieval.multi_query.merge import MergedDocument
from kb.retrieval.multi_query.pages import brief, page
from kb.tokens import count_tokens

FOUND = MergedDocument(document="kb:ideas/x.md", kind="idea", name="ideas/x")


def passage(number: int, text: str, heading: str) -> Passage:
    return Passage(
        id=str(number),
        document=FOUND.document,
        section=f"X > {heading}",
        kind="idea",
        text=text,
        tokens=count_tokens(text),
    )


LONG = "This sentence is about what comes next and takes its time to say so in plain words. " * 3


@pytest.mark.parametrize(
    ("text", "ending"),
    [
        (f"{LONG}Two safe forms:\n\n- two passes: first one;\n- a {'very ' * 60}long one.", "one;"),
        (f"{LONG}Two safe forms:\n\n- a {'very ' * 60}long one.", "plain words."),
        (f"{LONG}\n\n1. Let it do it.\n2. **Types**: {'very ' * 60}much.", "Let it do it."),
        (f"{LONG}As this:\n\n```cpp\n{'x = 1; ' * 60}\n```\n", "plain words."),
        (f"# A line without an end\n\n{LONG * 4}", "plain words."),
    ],
)
def test_the_beginning_of_a_record_ends_where_something_is_said(text: str, ending: str) -> None:
    shown = brief(FOUND, [passage(1, text, "a")], {}, count_tokens)
    assert shown.text.endswith(f"{ending} [in brief]")


def test_a_section_of_several_passages_has_its_heading_once() -> None:
    parts = [
        passage(1, "One.", "How"),
        passage(2, "Two.", "How"),
        passage(3, "Three.", "When"),
        passage(4, "Four.", "How"),
    ]
    text = page(FOUND, parts, {}, count_tokens).text
    assert text == "## How\n\nOne.\n\nTwo.\n\n## When\n\nThree.\n\n## How\n\nFour."
