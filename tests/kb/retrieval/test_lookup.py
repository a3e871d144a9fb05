from __future__ import annotations

from pathlib import Path

import pytest

from kb.config import Home
from kb.knowledge import Knowledge, open_knowledge
from kb.records.types import Scope
from kb.retrieval.effect_estimate import GainMeasurement, Where
from kb.retrieval.effect_store import Use, record
from kb.retrieval.lookup import BEGINNING, RecordReader, first_sentence, nearest

PAD = "kb:ideas/pad-shared-memory.md"
CPU = Scope(vendor=("amd",), language=("cpp",))
LESSON = """---
kind: lesson
title: Padding won on a transposition
idea: pad-shared-memory
claim: {effect: wins, subject: pad-shared-memory}
evidence:
  - {task: transpose, target: toy, before: 2.0, after: 1.0, run: transpose-1, node: 3}
---
It won.
"""


@pytest.fixture(scope="module")
def library(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Knowledge:
    home = Home(tmp_path_factory.mktemp("reading")).make()
    home.lessons.mkdir(parents=True, exist_ok=True)
    (home.lessons / "padding-won.md").write_text(LESSON)
    manual = home.root / "manual.md"
    parts = (f"## Part {n}\n\n{f'Words of part {n} about tiles. ' * 60}\n" for n in range(12))
    manual.write_text("# Manual\n\n" + "\n".join(parts))
    found = open_knowledge(home, shipped=corpus)
    found.ingest([manual])
    return found


@pytest.fixture
def reader(library: Knowledge) -> RecordReader:
    return RecordReader(library.store, library.effects)


@pytest.mark.slow
def test_a_record_is_read_by_its_stem_and_by_its_path(reader: RecordReader) -> None:
    names = (
        "pad-shared-memory",
        PAD,
        "ideas/pad-shared-memory.md",
        "../ideas/pad-shared-memory.md",
    )
    for name in (*names, "pad-shared-memory.md", " Pad-Shared-Memory "):
        found = reader.read(name)
        assert found.name == "pad-shared-memory"
        (whole,) = found.passages
        assert whole.document == PAD
        assert "Shared memory has 32 banks." in whole.text
        assert "Add one element to each row" in whole.text


def test_a_record_read_whole_stands_under_its_first_passage(
    library: Knowledge, reader: RecordReader
) -> None:
    (whole,) = reader.read("pad-shared-memory").passages
    (passage,) = library.store.passages([whole.id]).values()
    assert passage.document == PAD
    assert "32 banks" in passage.text


def test_a_target_is_read_by_its_name(reader: RecordReader) -> None:
    assert "Its memory is slow" in reader.read("toy").passages[0].text


def test_a_plain_document_is_read_from_its_beginning(reader: RecordReader) -> None:
    found = reader.read("manual.md")
    assert len(found.passages) == BEGINNING
    assert found.more > 0
    assert "part 0" in found.passages[0].text


def test_an_unknown_name_has_three_near_ones_and_nothing_else(reader: RecordReader) -> None:
    for found in (reader.read("pad-memory"), reader.history("pad-memory")):
        assert not found.found
        assert len(found.nearest) == 3
        assert found.nearest[0] == "pad-shared-memory"
    assert reader.module("atention").nearest
    assert nearest("x", []) == ()


def test_hidden_documents_are_neither_read_nor_named(library: Knowledge) -> None:
    shown = "lessons:padding-won.md"
    reader = RecordReader(library.store, library.effects, frozenset({shown}))
    for name in ("padding-won", shown, "padding-won.md", "lessons:*"):
        found = reader.read(name)
        assert not found.found
        assert all("padding-won" not in one for one in found.nearest)
    assert not reader.module("lessons").found
    assert "Padding won" not in reader.history("pad-shared-memory").text


def test_a_page_has_what_applies_first_and_the_rest_under_a_heading(reader: RecordReader) -> None:
    text = reader.module("ideas-memory-access", CPU).text
    assert text.startswith("## Written for other targets or languages")
    nvidia = reader.module("memory-access", Scope(vendor=("nvidia",), language=("cuda",))).text
    assert "Written for other" not in nvidia
    assert nvidia.count("\n- ") == 2


def test_the_symptoms_asked_about_come_first(reader: RecordReader) -> None:
    plain = reader.module("symptoms").text
    asked = reader.module("symptoms", Scope(), ("bank-conflicts",)).text
    assert plain.index("## uncoalesced-access") < plain.index("## bank-conflicts")
    assert asked.startswith("## bank-conflicts")
    assert sorted(plain.splitlines()) == sorted(asked.splitlines())


def test_a_history_tells_places_evidence_and_lessons(
    library: Knowledge, reader: RecordReader
) -> None:
    assert "No run in this record measured it yet." in reader.history("vector-loads").text
    found = reader.history("pad-shared-memory")
    assert "padding-won: Padding won on a transposition (1 for it, 0 against)" in found.text
    lesson = reader.history("padding-won").text
    assert "transpose on toy: won, 2.00 times the speed (transpose-1 node 3)" in lesson
    trial = GainMeasurement(
        gain=0.5,
        fate="won",
        at=library.effects.moment - 9,
        families=frozenset({"matmul"}),
        architecture="sm_90",
        bottleneck="bank-conflicts",
    )
    uses = [Use(subject=PAD, evidence=f"e{n}", node=n, trial=trial) for n in range(4)]
    record(library.store.engine, "matmul-1", uses)
    later = RecordReader(
        library.store, type(library.effects)(library.store.engine, library.effects.moment)
    )
    where = Where(families=frozenset({"matmul"}), architecture="sm_90", bottleneck="bank-conflicts")
    told = later.history("pad-shared-memory", where)
    assert "- matmul; sm_90; bank-conflicts: 4 won; expect 1." in told.text
    assert [row["won"] for row in told.rows] == [4]


def test_the_first_sentence_skips_headings_fences_and_abbreviations() -> None:
    text = "# Title\n\n```cpp\nint x;\n```\n\nTiles help, e.g. in shared memory. Then more.\n"
    assert first_sentence(text) == "Tiles help, e.g. in shared memory."
    assert first_sentence("No end here") == "No end here"
    assert first_sentence("x" * 300, 20) == "x" * 19 + "…"
    assert first_sentence("") == ""
