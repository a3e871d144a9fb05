from __future__ import annotations

import gzip
import json

import pytest
from play import open_storage, play, settings_of

from kb.errors import StoreError
from search.graph import Graph
from search.runs.export import read_run, write_run
from search.runs.storage import Storage
from synth.models import Message, Reply, Request

ASKED = Request(
    messages=(Message(role="user", content="Make it fast."),),
    max_tokens=9,
    temperature=0.5,
    seed=3,
)
ANSWER = Reply(text="…", model="m", tokens_in=1, tokens_out=2, seconds=3.0, finish="stop")


def story(graph: Graph) -> list[object]:
    return [
        [(n.number, n.step, n.parent, n.idea, n.draft, n.outcome) for n in graph.nodes],
        graph.proposals,
        graph.dead_ends,
    ]


@pytest.fixture
def played(tmp_path):
    folder = tmp_path / "one"
    folder.mkdir()
    storage = open_storage(folder)
    letters = "/home/me/letters"
    about = {
        **{name: name for name in ("task", "target", "language", "author", "source")},
        "path": "/home/me/secret/task.yaml",
        "reference": "/home/me/secret/ref.py",
        "settings": {
            **settings_of().model_dump(mode="json"),
            "mailbox": letters,
            "model": {"provider": "mailbox", "name": letters},
        },
    }
    record = storage.begin("play", about)
    play(storage, record, settings_of())
    record.finish({"best": {"node": 1, "file": "/home/me/best.py"}})
    storage.put(ASKED.key(), ASKED, ANSWER)
    return storage, record


def other(tmp_path) -> Storage:
    folder = tmp_path / "two"
    folder.mkdir()
    return open_storage(folder)


def test_a_run_that_was_carried_is_the_run_that_was_played(played, tmp_path):
    storage, record = played
    assert write_run(storage, record.run, tmp_path / "run.gz") > 20
    there = other(tmp_path)
    assert read_run(there, tmp_path / "run.gz") == record.run
    assert story(there.record(record.run).graph) == story(storage.record(record.run).graph)
    assert there.run(record.run).status == "finished"
    assert there.run(record.run).started == storage.run(record.run).started


def test_the_same_record_gives_the_same_bytes_and_no_folder_of_the_machine(played, tmp_path):
    storage, record = played
    write_run(storage, record.run, tmp_path / "a.gz")
    write_run(storage, record.run, tmp_path / "b.gz")
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
    text = gzip.decompress((tmp_path / "a.gz").read_bytes()).decode()
    assert "/home/me" not in text
    assert "task.yaml" in text


@pytest.mark.parametrize("bound", ["MOST_ROWS", "LARGEST", "LONGEST_LINE"])
def test_what_nobody_could_read_again_is_not_written(played, tmp_path, monkeypatch, bound):
    storage, record = played
    monkeypatch.setattr(f"search.runs.export.{bound}", 20)
    with pytest.raises(StoreError, match="expected a run that `kb import` reads"):
        write_run(storage, record.run, tmp_path / "run.gz")
    assert not (tmp_path / "run.gz").exists()


@pytest.mark.slow
def test_a_carried_outcome_is_no_verdict_of_this_machine(played, tmp_path):
    storage, record = played
    write_run(storage, record.run, tmp_path / "run.gz")
    there = other(tmp_path)
    read_run(there, tmp_path / "run.gz")
    mine = there.begin("play", {})
    judged = play(there, mine, settings_of())
    assert set(judged.judged) == {node.draft.source for node in mine.graph.nodes}


@pytest.mark.slow
def test_what_is_no_run_or_is_known_is_refused_and_nothing_is_read(played, tmp_path):
    storage, record = played
    path = tmp_path / "run.gz"
    write_run(storage, record.run, path)
    with pytest.raises(StoreError, match="is on record here"):
        read_run(storage, path)
    with pytest.raises(StoreError, match="no run 'play-9'"):
        write_run(storage, "play-9", path)
    there = other(tmp_path)
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    broken = {
        "words": b"no run at all",
        "cut": path.read_bytes()[:-40],
        "strange": gzip.compress(b'{"format": "kb run 99"}\n'),
        "table": gzip.compress("\n".join([*lines, json.dumps({"table": "users", "row": {}})]).encode()),
        "twice": gzip.compress("\n".join([*lines, lines[1]]).encode()),
        "lack": gzip.compress("\n".join([lines[0], json.dumps({"table": "nodes", "row": {}})]).encode()),
        "column": gzip.compress(
            "\n".join([lines[0], json.dumps({"table": "nodes", "row": {"evil": 1}})]).encode()
        ),
    }  # fmt: skip
    for name, content in broken.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(StoreError) as caught:
            read_run(there, tmp_path / name)
        assert "\n" not in str(caught.value)
        assert there.runs() == [], name
