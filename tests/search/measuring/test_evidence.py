"""Evidence in a record: what an outcome says, and that all else stays as it was written."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from kb.config import shipped_docs
from kb.errors import RecordError
from kb.records.library import examine_library, load_library
from kb.records.schema import Evidence, IdeaRecord, parse_record
from search.measuring.evidence import IdeaRecords, evidence_of, line, with_evidence
from search.outcome import BuildFailed, Outcome, Passed, Ratio

DAY = date(2026, 1, 2)
WITHOUT = """---
kind: idea
title: Do less
category: memory access
scope: {language: [cpp]}
recipe:
  pattern: rows
asked:
  - less
---

# Do less

evidence:
"""
WITH = WITHOUT.replace(
    "recipe:",
    "evidence:\n  # by hand\n  - {task: old, target: zen4, before: 2.0e-3, after: 1.0e-3}\nrecipe:",
)


def passed(ratio: float, low: float, high: float, **more: Ratio) -> Passed:
    eager = Ratio(ratio=ratio, low=low, high=high)
    return Passed(
        seconds=2e-3, samples=9, speedup={"eager": eager, **more}, max_error=0, allowed_error=1
    )


def evidence(outcome: Outcome) -> Evidence:
    return evidence_of(
        outcome, task="softmax 64x256", target="zen4", eager_seconds=1e-3, at=DAY, told="rows=2"
    )


@pytest.mark.parametrize(
    ("ratio", "low", "high", "fate"),
    [(1.5, 1.2, 1.7, "won"), (0.5, 0.4, 0.9, "lost"), (1.2, 0.9, 1.4, "even"), (1.00001, 1.000001, 1.1, "even")],
)  # fmt: skip
def test_the_interval_decides_the_outcome(ratio: float, low: float, high: float, fate: str) -> None:
    found = evidence(passed(ratio, low, high))
    assert found.outcome == fate
    assert found.gain == pytest.approx(ratio, rel=1e-3)
    assert found.after == 2e-3


def test_the_note_tells_torch_compile_and_the_knobs() -> None:
    compiled = Ratio(ratio=0.8, low=0.7, high=0.9)
    told = evidence(passed(1.5, 1.2, 1.7, compile=compiled)).note
    assert told == "0.80x over torch.compile (0.70 to 0.90); rows=2"
    assert evidence(passed(1.5, 1.2, 1.7)).note.startswith("torch.compile does not run it")


def test_what_does_not_build_has_failed_and_has_no_time() -> None:
    found = evidence(BuildFailed(reason="it does not\ncompile"))
    assert (found.outcome, found.after, found.before) == ("failed", None, 1e-3)
    assert found.note == "build failed: it does not compile; rows=2"


def test_every_line_but_the_new_one_stays() -> None:
    for text, before in ((WITHOUT, "scope: {language: [cpp]}"), (WITH, "  - {task: old")):
        found = [evidence(passed(1.5, 1.2, 1.7)), evidence(BuildFailed(reason='no "way"'))]
        changed = with_evidence(text, found, "less.md")
        added = [line(one) for one in found]
        kept = [one for one in changed.split("\n") if one not in added]
        assert [one for one in kept if text is WITH or one != "evidence:"] == [
            one for one in text.split("\n") if text is WITH or one != "evidence:"
        ]
        place = changed.split("\n").index(added[0]) - (1 if text is WITHOUT else 0)
        assert changed.split("\n")[place - 1].startswith(before)
        record = parse_record(changed, "less.md").record
        assert isinstance(record, IdeaRecord)
        assert record.evidence[-2:] == tuple(found)


def test_evidence_that_is_no_list_of_lines_is_refused() -> None:
    text = WITHOUT.replace(
        "recipe:", "evidence: [{task: old, target: zen4, before: 1.0, after: 0.5}]\nrecipe:"
    )
    with pytest.raises(RecordError, match="a line an entry"):
        with_evidence(text, [evidence(passed(1.5, 1.2, 1.7))], "less.md")


@pytest.mark.slow
def test_shipped_records_take_evidence_and_stay_sound(tmp_path: Path) -> None:
    library = shipped_docs() / "ideas"
    records = IdeaRecords(library, tmp_path)
    recipes = [d.name for d in load_library(library) if getattr(d.record, "recipe", None)]
    for name in recipes:
        records.add(name, evidence(passed(1.5, 1.2, 1.7)))
        records.add(name, evidence(BuildFailed(reason="none")))
    faults, documents = examine_library(tmp_path, load_library(shipped_docs()), pages=False)
    assert faults == []
    assert {one.name for one in documents} == set(recipes)
    assert "softmax 64x256" in records.measured(recipes[0], "zen4")
    assert records.measured(recipes[0], "zen3") == frozenset()


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    records = IdeaRecords(shipped_docs() / "ideas", tmp_path / "file" / "out")
    with pytest.raises(RecordError, match="--output"):
        records.add("cpu-rows-simd", evidence(passed(1.5, 1.2, 1.7)))
