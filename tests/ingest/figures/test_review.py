from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
import yaml

from ingest.figures.review import Ledger
from ingest.pipeline import Terms, ingest
from kb.config import Home
from kb.errors import ConfigError
from kb.records.schema import TargetRecord
from kb.records.targets import load_targets
from kb.store.documents import Store

SHEET = """# Data sheet

| | H100 SXM |
| --- | --- |
| SMs | 132 |
| L2 cache | 60 MB |
| L2 cache latency | 273 cycles |
"""
TODAY = date(2026, 1, 2)


def target(home: Home, name: str) -> TargetRecord:
    (found,) = [
        one.record
        for one in load_targets(home)
        if isinstance(one.record, TargetRecord) and one.record.name == name
    ]
    return found


@pytest.fixture
def ledger(docs: Path, store: Store, terms: Terms) -> Ledger:
    (docs / "sheet.md").write_text(SHEET)
    ingest([docs], store, terms=terms)
    made = Ledger(Home(docs.parent / "home"), store._engine)
    assert made.refresh() == 3
    assert made.refresh() == 0
    return made


def numbers(ledger: Ledger) -> dict[str, int]:
    return {line.field: line.number for line in ledger.lines()}


def test_a_proposal_stands_beside_what_is_known(ledger: Ledger) -> None:
    lines = {line.field: line for line in ledger.lines()}
    assert lines["units"].standing == "agrees"
    assert lines["limits.l2_latency_cycles"].standing == "new"
    conflict = lines["caches.l2.bytes"]
    assert conflict.standing == "conflicts"
    assert (conflict.value, conflict.known) == (60 * 2**20, 50 * 2**20)
    assert conflict.source == "docs/sheet.md, Data sheet: L2 cache = 60 MB"
    assert "h100.md" in conflict.known_from
    assert "NVIDIA H100" in conflict.known_from


def test_nothing_changes_a_target_but_the_user(ledger: Ledger, docs: Path) -> None:
    home = Home(docs.parent / "home")
    before = target(home, "h100")
    ledger.accept([numbers(ledger)["limits.l2_latency_cycles"]], replace=False, today=TODAY)
    after = target(home, "h100")
    assert after.limits["l2_latency_cycles"] == 273
    assert after.limits.keys() - before.limits.keys() == {"l2_latency_cycles"}
    assert after.caches == before.caches
    written = yaml.safe_load((home.root / "targets" / "h100.yaml").read_text())
    assert written["facts"] == [
        {
            "field": "limits.l2_latency_cycles",
            "value": 273.0,
            "source": "docs/sheet.md, Data sheet: L2 cache latency = 273 cycles",
            "accepted": "2026-01-02",
        }
    ]


def test_a_conflict_is_refused_with_both_sources_until_it_is_asked_for(
    ledger: Ledger, docs: Path
) -> None:
    home = Home(docs.parent / "home")
    number = numbers(ledger)["caches.l2.bytes"]
    with pytest.raises(ConfigError, match=r"h100.md.*sheet.md.*--replace") as caught:
        ledger.accept([number], replace=False, today=TODAY)
    assert "\n" not in str(caught.value)
    assert target(home, "h100").caches["l2"].bytes == 50 * 2**20
    ledger.accept([number], replace=True, today=TODAY)
    record = target(home, "h100")
    assert record.caches["l2"].bytes == 60 * 2**20
    assert record.caches["l2"].shared_by == "device"
    assert any("sheet.md" in source for source in record.sources)
    ledger.reject([number])
    assert target(home, "h100").caches["l2"].bytes == 50 * 2**20


def test_a_decision_survives_reading_the_document_again(
    ledger: Ledger, docs: Path, store: Store, terms: Terms
) -> None:
    number = numbers(ledger)["caches.l2.bytes"]
    ledger.reject([number])
    (docs / "sheet.md").write_text(SHEET.replace("# Data sheet", "# Data sheet\n\nNew words."))
    ingest([docs], store, terms=terms)
    assert ledger.refresh() == 0
    assert {line.number: line.state for line in ledger.lines()}[number] == "rejected"
    (docs / "sheet.md").unlink()
    ingest([docs], store, terms=terms)
    ledger.refresh()
    assert ledger.lines() == []


def test_a_number_that_is_none_is_one_line(ledger: Ledger) -> None:
    with pytest.raises(ConfigError, match="99: expected the number of a proposal"):
        ledger.accept([99], replace=False, today=TODAY)


def test_two_values_of_one_figure_are_not_accepted_together(
    ledger: Ledger, docs: Path, store: Store, terms: Terms
) -> None:
    (docs / "other.md").write_text(SHEET.replace("273", "280"))
    ingest([docs], store, terms=terms)
    ledger.refresh()
    both = [one.number for one in ledger.lines() if one.field == "limits.l2_latency_cycles"]
    assert len(both) == 2
    with pytest.raises(ConfigError, match="different things"):
        ledger.accept(both, replace=False, today=TODAY)


def test_a_record_of_the_user_stands_for_the_shipped_one(docs: Path) -> None:
    home = Home(docs.parent / "mine").make()
    folder = home.root / "targets"
    folder.mkdir()
    (folder / "mine.md").write_text(
        "---\nkind: target\ntitle: My card\nname: h100\nvendor: nvidia\narchitecture: sm_90\n"
        "device: gpu\nlanguages: [cuda]\nunits: 1\nclock: 1.0e+9\nsimd_width: 32\n"
        "peak: {float32: 1.0e+12}\nbandwidth: 1.0e+11\n---\nNotes.\n"
    )
    assert target(home, "h100").units == 1
    (folder / "h100.yaml").write_text("target: h100\nfacts: 3\n")
    with pytest.raises(ConfigError, match=r"h100.yaml: expected accepted facts"):
        load_targets(home)
