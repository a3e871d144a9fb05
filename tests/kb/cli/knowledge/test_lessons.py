"""`kb lessons`, in this process: what a person sees and does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from play import Deterministic, open_storage, settings_of
from play import play as play_run
from typer.testing import CliRunner

from kb.app.lessons import learning
from kb.cli.commands import app
from kb.config import Home
from kb.errors import ConfigError, KbError
from kb.records.schema import parse_record
from search.lessons.setting import Setting
from search.outcome import Passed
from search.runs.storage import Storage

NAMES = (
    "tile the rows",
    "prefetch a line",
    "unroll the loop",
    "stream the stores",
    "fuse the scale",
)


class Ideas(Deterministic):
    """Proposes ideas that have records, so that structure alone tells them apart."""

    def ideas(self, moment, count):
        from search.attempt import Idea

        return tuple(
            Idea(title=name, text=f"{name}, in words", category="memory access", record=name)
            for name in NAMES[:count]
        )


def finish(storage: Storage, home: Home, monkeypatch) -> str:
    """Play a run to its end and learn from it; return its name."""
    monkeypatch.setattr("play.Deterministic", Ideas)
    record = storage.begin("play", {"task": "play", "target": "zen4", "language": "cpp"})
    search = {"rounds": 1, "ideas": 5, "branches": 2}
    play_run(storage, record, settings_of(search=search))
    record.finish({"run": record.run, "baselines": {"eager": 1e-3}, "best": None})
    learning.learn(home, storage, record, setting_of(record.run), {})
    return record.run


def setting_of(run: str) -> Setting:
    return Setting(
        run=run,
        task="play",
        identity="0" * 32,
        target="zen4",
        architecture="x86-64-v4",
        language="cpp",
        families=("softmax",),
        symptoms=("memory-bound",),
        shapes="8x8 -> 8x8",
        eager_seconds=1e-3,
        regime="fits l1, short rows",
        at=learning.today(),
    )


@pytest.fixture
def home(tmp_path, monkeypatch) -> Home:
    monkeypatch.setenv("KB_HOME", str(tmp_path))
    monkeypatch.delenv("KB_DATABASE", raising=False)
    found = Home.find().make()
    finish(open_storage(found.root), found, monkeypatch)
    return found


def kb(*arguments: object, fails: type[Exception] | None = None) -> str:
    done = CliRunner().invoke(app, ["lessons", *map(str, arguments)])
    if fails is not None:
        assert isinstance(done.exception, fails), done.output
        return str(done.exception)
    assert done.exception is None, done.exception
    return done.stdout


def rows(*arguments: object) -> list[dict]:
    return json.loads(kb(*arguments, "--json"))


@pytest.mark.slow
def test_lessons_are_listed_shown_and_filtered(home):
    found = rows()
    assert {row["effect"] for row in found} >= {"wins", "helps"}
    assert {row["status"] for row in found} == {"active"}
    worths = [row["worth"] for row in found]
    assert worths == sorted(worths, reverse=True)
    assert rows("--effect", "helps") == [row for row in found if row["effect"] == "helps"]
    assert rows("--target", "zen4", "--family", "softmax", "--run", "play-1") == found
    assert rows("--target", "h100") == rows("--run", "play-2") == rows("--family", "scan") == []
    assert "expected one of wins, helps" in kb("--effect", "great", fails=ConfigError)
    text = kb()
    assert all(str(row["number"]) in text for row in found)
    shown = kb("show", found[0]["number"])
    assert f"lesson {found[0]['number']} ({found[0]['name']})" in shown
    assert "  + play-1 node" in shown
    values = json.loads(kb("show", found[0]["number"], "--json"))
    assert [one["fault"] for one in values["evidence"]] == [None]


def test_a_home_without_runs_has_no_lessons(tmp_path, monkeypatch):
    monkeypatch.setenv("KB_HOME", str(tmp_path / "none"))
    assert rows() == []
    assert "no lessons" in kb()
    assert not (tmp_path / "none").exists()


@pytest.mark.slow
def test_words_are_edited_in_place_or_by_an_editor(home, monkeypatch):
    number = rows()[0]["number"]
    kb("edit", number, "--text", "# Unroll by four\n\nEight spills here, measured by hand.")
    assert rows()[0]["title"] == "Unroll by four"
    monkeypatch.setenv("EDITOR", "sed -i s/Eight/Sixteen/")
    monkeypatch.delenv("VISUAL", raising=False)
    kb("edit", number)
    assert "Sixteen spills" in kb("show", number)
    monkeypatch.setenv("EDITOR", "true")
    assert "unchanged" in kb("edit", number)
    monkeypatch.setenv("EDITOR", "no-such-editor --wait")
    assert "no-such-editor" in kb("edit", number, fails=ConfigError)
    monkeypatch.delenv("EDITOR")
    assert "--text" in kb("edit", number, fails=ConfigError)


@pytest.mark.slow
def test_a_retired_lesson_leaves_what_retrieval_reads_and_comes_back(home):
    from kb.knowledge import open_store

    row = rows()[0]
    assert open_store(home).document("lesson", row["name"]) is not None
    kb("retire", row["number"], "--because", "measured beside a build")
    assert open_store(home).document("lesson", row["name"]) is None
    assert row["name"] not in {one["name"] for one in rows()}
    assert rows("--all")[-1]["status"] == "retired"
    assert "measured beside a build" in kb("show", row["number"])
    kb("restore", row["number"])
    assert open_store(home).document("lesson", row["name"]) is not None


def node_of(home, kind):
    """Return a node of the run that gained or lost against eager."""
    graph = open_storage(home.root).record("play-1").graph
    for node in graph.nodes:
        if isinstance(node.outcome, Passed):
            ratio = node.outcome.speedup["eager"].ratio
            if (ratio > 1) == (kind == "won"):
                return node.number
    raise AssertionError(kind)


def test_a_person_names_a_measurement_and_it_speaks_for_itself(home):
    row = rows("--effect", "helps")[0]
    told = json.loads(
        kb("confirm", row["number"], "--run", "play-1", "--node", node_of(home, "lost"), "--json")
    )
    assert told[0]["fate"] == "contradicted"
    after = next(one for one in rows() if one["name"] == row["name"])
    assert (after["confirmed"], after["contradicted"]) == (1, 1)
    assert after["trust"] < row["trust"]
    assert "no run 'gone-1'" in kb(
        "confirm", row["number"], "--run", "gone-1", "--node", 0, fails=KbError
    )
    assert "node 999" in kb(
        "confirm", row["number"], "--run", "play-1", "--node", 999, fails=ConfigError
    )


HAND = """---
kind: lesson
title: Everything is faster with eight threads a core
evidence:
- {task: softmax, target: zen4, before: 2.0, after: 1.0, run: RUN, node: 0}
plan: {library: [], segments: {}}
---

# Everything is faster with eight threads a core

A colleague says so.
"""


@pytest.mark.parametrize("run", ["elsewhere-7", "play-1"])
def test_a_file_whose_evidence_is_not_in_the_record_is_unproven_and_not_acted_on(home, run):
    from kb.knowledge import open_store, sync_lessons
    from search.lessons.evidence import Runs
    from search.prompting.knowledge_view import TrustedRecords

    # The node of play-1 is there, and it measured another gain.
    text = HAND.replace("RUN", run).replace("before: 2.0", "before: 100.0")
    (home.lessons / "by-hand.md").write_text(text)
    sync_lessons(home)
    row = next(one for one in rows() if one["name"] == "by-hand")
    assert row["status"] == "unproven"
    shown = kb("show", "by-hand")
    assert "counts nothing" in shown
    store = open_store(home)
    believed = TrustedRecords(store, Runs(open_storage(home.root).engine).believes)
    names = {document.name for document in store.documents("lesson")}
    assert names - {document.name for document in believed.documents("lesson")} == {"by-hand"}
    assert believed.document("lesson", "by-hand") is None
    assert believed.doubted() == {"lessons:by-hand.md"}
    kb("confirm", "by-hand", "--run", "play-1", "--node", node_of(home, "won"))
    assert believed.document("lesson", "by-hand") is not None


def test_a_lesson_of_which_the_record_holds_only_what_contradicts_it_is_not_acted_on(home):
    from kb.knowledge import open_store, sync_lessons
    from search.lessons.evidence import Runs
    from search.prompting.knowledge_view import TrustedRecords

    (home.lessons / "by-hand.md").write_text(HAND.replace("RUN", "elsewhere-7"))
    sync_lessons(home)
    kb("confirm", "by-hand", "--run", "play-1", "--node", node_of(home, "lost"))
    (row,) = (one for one in rows("--all") if one["name"] == "by-hand")
    assert row["status"] == "retired"
    kb("restore", "by-hand")  # as it would be where the run was deleted later
    believed = TrustedRecords(open_store(home), Runs(open_storage(home.root).engine).believes)
    assert believed.document("lesson", "by-hand") is None


def test_evidence_that_says_otherwise_than_the_record_is_refused(home):
    from search.lessons.evidence import Runs

    fault = Runs(open_storage(home.root).engine).fault
    row = rows("--effect", "helps")[0]
    path = home.lessons / f"{row['name']}.md"
    (evidence,) = parse_record(path.read_text(), path.name).record.evidence
    assert fault(evidence) is None
    changed = evidence.model_copy(update={"after": evidence.after / 5})
    assert "measured" in fault(changed)
    assert "not in the record" in fault(evidence.model_copy(update={"node": 4000}))
    assert fault(evidence.model_copy(update={"run": None})) == "names no run and node"
    graph = open_storage(home.root).record("play-1").graph
    wrong = [node.number for node in graph.nodes if not isinstance(node.outcome, Passed)]
    if wrong:
        assert "did not pass" in fault(evidence.model_copy(update={"node": wrong[0]}))


def test_learning_a_run_twice_leaves_every_file_as_it_was(home):
    before = {path.name: path.read_bytes() for path in Path(home.lessons).iterdir()}
    storage = open_storage(home.root)
    changes = learning.learn(home, storage, storage.record("play-1"), setting_of("play-1"), {})
    assert {change.fate for change in changes} == {"known"}
    assert before == {path.name: path.read_bytes() for path in Path(home.lessons).iterdir()}


def test_a_reason_is_asked_for(home):
    number = rows()[0]["number"]
    assert "expected a reason" in kb("retire", number, "--because", "x", fails=ConfigError)
