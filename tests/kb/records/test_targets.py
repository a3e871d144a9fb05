from __future__ import annotations

from pathlib import Path

import pytest

from kb.config import Home
from kb.errors import ConfigError
from kb.records.schema import TargetRecord
from kb.records.targets import load_targets

# As `kb facts accept` of an older version wrote it.
FIGURES = """target: h100
facts:
- {field: limits.l2_latency_cycles, value: 273.0, source: 'sheet.md: L2 cache latency', accepted: '2026-01-02'}
- {field: caches.l2.bytes, value: 62914560.0, source: 'sheet.md: L2 cache', accepted: '2026-01-02', instead_of: 52428800.0}
"""


def target(home: Home, name: str) -> TargetRecord:
    (found,) = [
        one.record
        for one in load_targets(home)
        if isinstance(one.record, TargetRecord) and one.record.name == name
    ]
    return found


@pytest.fixture
def folder(home: Home) -> Path:
    made = home.root / "targets"
    made.mkdir()
    return made


def test_a_figure_of_the_user_stands_for_that_of_the_record(home: Home, folder: Path) -> None:
    before = target(home, "h100")
    (folder / "h100.yaml").write_text(FIGURES)
    after = target(home, "h100")
    assert after.limits.keys() - before.limits.keys() == {"l2_latency_cycles"}
    assert after.limits["l2_latency_cycles"] == 273
    assert after.caches["l2"].bytes == 62914560 != before.caches["l2"].bytes
    assert after.caches["l2"].shared_by == "device"
    assert any("sheet.md" in source for source in after.sources)
    assert target(home, "h200") is not None


def test_a_figure_that_fits_into_no_record_is_one_line(home: Home, folder: Path) -> None:
    (folder / "h100.yaml").write_text(
        "target: h100\nfacts: [{field: unitz, value: 1, source: s}]\n"
    )
    with pytest.raises(ConfigError, match=r"unitz.*correct targets/h100.yaml") as caught:
        load_targets(home)
    assert "\n" not in str(caught.value)


def test_a_record_of_the_user_stands_for_the_shipped_one(home: Home, folder: Path) -> None:
    (folder / "mine.md").write_text(
        "---\nkind: target\ntitle: My card\nname: h100\nvendor: nvidia\narchitecture: sm_90\n"
        "device: gpu\nlanguages: [cuda]\nunits: 1\nclock: 1.0e+9\nsimd_width: 32\n"
        "peak: {float32: 1.0e+12}\nbandwidth: 1.0e+11\n---\nNotes.\n"
    )
    assert target(home, "h100").units == 1
    (folder / "h100.yaml").write_text("target: h100\nfacts: 3\n")
    with pytest.raises(ConfigError, match=r"h100.yaml: expected figures"):
        load_targets(home)
