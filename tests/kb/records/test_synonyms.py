from __future__ import annotations

from pathlib import Path

import pytest

from kb.config import shipped_docs
from kb.errors import RecordError
from kb.records.synonyms import FILE, load_vocabulary, other_names


def test_a_question_is_looked_for_by_the_other_names_of_what_it_says() -> None:
    found = other_names("How much shared memory does a block have?")
    assert {"LDS", "smem"} <= set(found)
    assert "shared memory" not in found


def test_a_name_of_several_words_counts_only_whole_and_in_order() -> None:
    assert "LDS" not in other_names("memory that is shared by two processes")


def test_a_question_without_a_known_name_stays_as_it_is() -> None:
    assert other_names("why is my answer refused") == []


def test_the_shipped_vocabulary_is_read() -> None:
    assert len(load_vocabulary(shipped_docs() / FILE)) > 40


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("- [alone]\n", "two names"),
        ("names: {}\n", "two names"),
        ("- [a, b]\n- [b, c]\n", "'b' in two"),
        ("- [a, b\n", "vocabulary"),
    ],
)
def test_a_broken_vocabulary_is_refused_in_one_line(text: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "vocabulary.yaml"
    path.write_text(text)
    with pytest.raises(RecordError, match=reason) as caught:
        load_vocabulary(path)
    assert "\n" not in str(caught.value)
