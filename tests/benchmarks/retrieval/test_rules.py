from __future__ import annotations

from pathlib import Path

from benchmarks.retrieval.questions import load_questions
from benchmarks.retrieval.rules import write_rules


def test_every_answer_over_records_is_a_rule_of_ruff(tmp_path: Path) -> None:
    write_rules(tmp_path / "rules")
    pages = {path.name for path in (tmp_path / "rules").iterdir()}
    questions = load_questions("records")
    named = {answer.text for one in questions for _, answer in one.graded()}
    assert named - pages == set()
    assert len(questions) >= 80
    assert 0.25 < sum(one.held_out for one in questions) / len(questions) < 0.42


def test_a_page_has_the_name_the_summary_and_the_explanation_of_a_rule(tmp_path: Path) -> None:
    write_rules(tmp_path / "rules")
    page = (tmp_path / "rules" / "is-literal.md").read_text(encoding="utf-8")
    assert page.startswith("# is-literal (F632)\n\nUse `==`")
    assert "## Why is this bad?" in page
