from __future__ import annotations

from pathlib import Path

import pytest

from kb.config import shipped_docs
from kb.errors import RecordError
from kb.records.patterns import FOLDER, load_patterns, read_patterns
from kb.records.schema import OPERATOR_FAMILIES, SYMPTOMS

OWN = """\
patterns:
  - name: attention
    title: our attention
    when: {any: ["word: ours"]}
    see: [ideas/ours]
  - name: beam-search
    title: beam search
    when: {all: ["operator: topk", "word: beam"]}
    questions: [How is a beam search made fast?]
"""


def test_a_users_patterns_are_added_and_replace_shipped_ones_of_their_name(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(OWN)
    known = {one.name: one for one in load_patterns(tmp_path, tmp_path / "none")}
    assert known["attention"].title == "our attention"
    assert known["beam-search"].when.all == ("operator: topk", "word: beam")
    assert len(known) == len(load_patterns()) + 1


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("patterns: [{name: a b, title: xyz, when: {}}]", "patterns.0.name"),
        ("patterns: [{name: a, title: xyz, when: {any: [softmax]}}]", "patterns.0.when.any.0"),
        ("patterns: [{name: a, title: xyz, when: {}, see: [softmax]}]", "patterns.0.see.0"),
        ("patterns: [{name: a, title: xyz, when: {any: ['message: (']}}]", "regular expression"),
        ("patterns: [", "expected"),
    ],
)
def test_a_broken_file_is_told_in_one_line(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text(text)
    with pytest.raises(RecordError) as error:
        read_patterns(path)
    assert str(path) in str(error.value)
    assert told in str(error.value)
    assert "\n" not in str(error.value)


def test_a_name_in_two_files_is_told(tmp_path: Path) -> None:
    for name in ("one.yaml", "two.yaml"):
        (tmp_path / name).write_text(OWN)
    with pytest.raises(RecordError, match="attention"):
        load_patterns(tmp_path)


def test_every_shipped_pattern_names_records_families_and_patterns_that_exist() -> None:
    patterns = load_patterns()
    names = {one.name for one in patterns}
    docs = shipped_docs()
    for one in patterns:
        assert one.questions or one.see, one.name
        assert set(one.families) <= set(OPERATOR_FAMILIES), one.name
        assert set(one.instead) <= names, one.name
        for record in one.see:
            assert (docs / f"{record}.md").is_file(), f"{one.name} names {record}"


def test_every_symptom_of_a_diagnosis_has_a_question() -> None:
    asked = {one.name for one in load_patterns() if one.area == "symptom"}
    assert asked == {f"symptom-{name}" for name in SYMPTOMS}


def test_the_shipped_files_are_all_read() -> None:
    files = sorted((shipped_docs() / FOLDER).glob("*.yaml"))
    assert sum(len(read_patterns(path)) for path in files) == len(load_patterns())
