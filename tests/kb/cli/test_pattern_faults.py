from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from kb.app.doctor.patterns import pattern_faults
from kb.cli.commands import app
from kb.config import shipped_docs
from kb.records.library import load_library

BROKEN = """\
patterns:
  - name: mine
    title: something of mine
    when: {any: ["is: causal-masks"]}
    see: [ideas/online-softmaxx]
    instead: [attentoin]
  - name: empty
    title: nothing to ask
    when: {any: ["word: it"]}
"""


def test_the_shipped_patterns_have_no_faults() -> None:
    assert pattern_faults(shipped_docs(), load_library(shipped_docs())) == []


@pytest.mark.slow
def test_a_users_patterns_are_checked_with_what_was_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "patterns").mkdir()
    (tmp_path / "patterns/own.yaml").write_text(BROKEN)
    monkeypatch.setenv("KB_HOME", str(tmp_path))
    result = CliRunner().invoke(app, ["check", "--no-recipes"])
    assert result.exit_code == 1
    for told in (
        "did you mean 'causal-mask'?",
        "did you mean 'ideas/online-softmax'?",
        "did you mean 'attention'?",
        "pattern empty: expected questions or records",
    ):
        assert told in result.output
