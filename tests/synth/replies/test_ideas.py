import json
from typing import Any

import jsonschema
import pytest
from growth import QUADRATIC, growth
from hypothesis import example, given
from hypothesis import strategies as st

from kb.records.schema import CATEGORIES
from synth.replies.ideas import EXAMPLE, TEXT_CHARACTERS, TITLE_CHARACTERS, read_sketches, schema

GOOD: dict[str, Any] = {
    "title": "Fuse the pooling",
    "category": "memory access",
    "text": "Take the maximum of the window while the row is still in registers.",
    "passages": ["P1", "P3"],
}
OTHER: dict[str, Any] = {
    "title": "Vectorise over output columns",
    "category": "compute and instructions",
    "text": "Eight lanes hold eight neighbouring outputs, the weight is broadcast.",
    "passages": [],
}


def titles(reply: str, *tried: dict[str, Any]) -> list[str]:
    pairs = [(idea["title"], idea["text"]) for idea in tried]
    return [sketch.title for sketch in read_sketches(reply, pairs).sketches]


@pytest.mark.parametrize(
    "reply",
    [
        json.dumps({"ideas": [GOOD, OTHER]}),
        json.dumps([GOOD, OTHER]),
        "Here you are:\n```json\n" + json.dumps({"ideas": [GOOD, OTHER]}, indent=1) + "\n```\nBye",
        "Sure! " + json.dumps({"ideas": [GOOD, OTHER]}) + " I hope [this] helps {you}.",
        '<think>{"ideas": []}</think>' + json.dumps({"ideas": [GOOD, OTHER]}),
        json.dumps({"ideas": [GOOD, OTHER]})[:-2] + ",]}",
        str({"ideas": [GOOD, OTHER]}),
        json.dumps({"ideas": {"1": GOOD, "2": OTHER}}),
        json.dumps({"ideas": [GOOD, OTHER, {**GOOD, "title": "Cut off"}]})[:-60],
        json.dumps({"ideas": [GOOD, OTHER]}).replace("window", "window\n"),
        json.dumps(
            {
                "ideas": [
                    {"name": GOOD["title"], "description": GOOD["text"], "type": "memory"},
                    OTHER,
                ]
            }
        ),
    ],
)
def test_ideas_are_read_whatever_stands_around_them(reply: str) -> None:
    assert titles(reply) == [GOOD["title"], OTHER["title"]]


def test_an_idea_keeps_its_fields() -> None:
    (sketch,) = read_sketches(json.dumps({"ideas": [GOOD]})).sketches
    assert sketch.model_dump() == {**GOOD, "passages": ("P1", "P3")}


@pytest.mark.parametrize(
    ("given", "labels"),
    [(["[P2]", "p10"], ("P2", "P10")), ("P1, P4", ("P1", "P4")), ([3], ("P3",)), (None, ())],
)
def test_labels_of_passages_are_understood_in_any_dress(
    given: Any, labels: tuple[str, ...]
) -> None:
    (sketch,) = read_sketches(json.dumps([{**GOOD, "passages": given}])).sketches
    assert sketch.passages == labels


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("Memory Access", "memory access"),
        ("memory", "memory access"),
        ("parallelism", "parallelism and occupancy"),
        ("Control-flow & loops", "control flow and loops"),
        ("Gardening\n and more", "gardening and more"),
    ],
)
def test_a_category_is_known_by_its_words(written: str, meant: str) -> None:
    (sketch,) = read_sketches(json.dumps([{**GOOD, "category": written}])).sketches
    assert sketch.category == meant


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        ("No ideas today.", "no JSON object"),
        ("", "no JSON object"),
        ('{"ideas": []}', 'list "ideas" is empty'),
        ("<think>hm", "inside its thinking block"),
        (json.dumps([{"title": "No text", "category": "memory access"}]), "text: Field required"),
        (json.dumps([{**GOOD, "title": 7}]), "title: Input should be a valid string"),
    ],
)
def test_a_reply_without_ideas_says_why_in_one_line(reply: str, problem: str) -> None:
    found = read_sketches(reply)
    assert found.sketches == ()
    assert problem in found.problem
    assert "\n" not in found.problem


def test_the_example_of_the_format_is_no_idea() -> None:
    found = read_sketches(json.dumps({"ideas": [{**EXAMPLE, "category": "memory access"}]}))
    assert found.sketches == ()
    assert "found the example of the format" in found.problem


def test_valid_ideas_stay_where_others_are_not() -> None:
    found = read_sketches(json.dumps([{**GOOD, "category": ""}, OTHER]))
    assert [sketch.title for sketch in found.sketches] == [OTHER["title"]]
    assert found.problem.startswith("1 of 2 ideas were not valid")


@pytest.mark.parametrize(
    "again",
    [
        GOOD,
        {**OTHER, "title": "fuse THE pooling!"},
        {**GOOD, "title": "Pool in registers"},
        {**GOOD, "title": "Fuse pooling", "text": GOOD["text"].replace("still", "")},
    ],
)
def test_an_idea_that_was_tried_is_not_given_again(again: dict[str, Any]) -> None:
    assert titles(json.dumps([again]), GOOD) == []
    assert (
        "tried before"
        in read_sketches(json.dumps([again]), [(GOOD["title"], GOOD["text"])]).problem
    )


def test_an_idea_given_twice_counts_once() -> None:
    assert titles(json.dumps([GOOD, OTHER, GOOD])) == [GOOD["title"], OTHER["title"]]


def test_a_long_idea_is_cut_and_not_lost() -> None:
    (sketch,) = read_sketches(
        json.dumps([{**GOOD, "title": "t" * 500, "text": "x " * 2000}])
    ).sketches
    assert len(sketch.title) == TITLE_CHARACTERS
    assert len(sketch.text) <= TEXT_CHARACTERS


def test_the_schema_admits_what_is_read_and_bounds_every_string() -> None:
    rules = json.loads(schema(2))
    jsonschema.validate({"ideas": [GOOD, OTHER]}, rules)
    for wrong in (
        {"ideas": []},
        {"ideas": [GOOD, OTHER, OTHER]},
        {"ideas": [{**GOOD, "category": "gardening"}]},
        {"ideas": [{**GOOD, "text": "x" * (TEXT_CHARACTERS + 1)}]},
        {"ideas": [{**GOOD, "more": 1}]},
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, rules)
    assert rules["properties"]["ideas"]["items"]["properties"]["category"]["enum"] == list(
        CATEGORIES
    )


PIECES = st.lists(
    st.sampled_from(
        ["{", "}", "[", "]", '"ideas":', '"title": "abc"', ",", '"text": "a long enough text"', "\n",
         '"category": "memory"', "<think>", "</think>", "```json\n", "```", "'", "None", "\\d", "7"]
    ),
    max_size=40,
).map("".join)  # fmt: skip


@given(st.one_of(PIECES, st.text(max_size=60)))
@example("{{}}")
def test_no_reply_breaks_the_reader_of_ideas(reply: str) -> None:
    found = read_sketches(reply)
    assert found.sketches or found.problem
    assert "\n" not in found.problem


@pytest.mark.parametrize("unit", ["[", "{", '{"title": ', "[[{", '{"a": [', ",", "{}", "\\"])
def test_a_model_that_repeats_itself_for_ever_is_read_soon(unit: str) -> None:
    reply = (unit * 40_000)[:40_000]
    assert read_sketches(reply).sketches == ()
    assert growth(lambda part: read_sketches(reply[: int(part * len(reply))])) < QUADRATIC
