"""What the record of runs promises, on each database that `kb` supports."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import play
import pytest
from pydantic import TypeAdapter
from sqlalchemy import Connection, Engine, create_engine, event, text

from kb.database import open_file
from kb.errors import StoreError
from search.attempt import Draft, Idea
from search.graph import Node, Proposal, Slot, Step
from search.judging.synthetic import Synthetic
from search.outcome import BuildFailed, Outcome, Passed, Ratio
from search.runs.snapshot import RunSnapshot
from search.runs.spending import Ledger, spending
from search.runs.storage import Record, Storage
from search.settings import StopSettings
from synth.models import Message, Reply, Request

SLOT = Slot(0, 0)
IDEA = Idea(
    title="Tile", text="Block it.", category="memory access", passages=("p",), exchanges=("e",)
)
REPLY = Reply(text="yes", model="m", tokens_in=1, tokens_out=2, seconds=0.5, finish="stop")


@pytest.fixture
def storage(engine: Engine) -> Storage:
    return Storage(engine)


def request(text: str) -> Request:
    return Request(
        messages=(Message(role="user", content=text),), max_tokens=9, temperature=0.0, seed=1
    )


def node(number: int, source: str) -> Node:
    return Node(
        number=number,
        step=Step(SLOT, 0, number),
        parent=None,
        idea=IDEA,
        draft=Draft(source=source, plan={"tile": 4}, passages=("q",), exchanges=("f",)),
    )


def propose(record: Record) -> None:
    proposal = Proposal(
        slot=SLOT, parent=None, ideas=(IDEA,), retrieved=("kb:ideas/tile.md",), subjects=("tile",)
    )
    record.add_proposal(proposal)


def test_a_run_comes_back_as_it_was_written(storage: Storage) -> None:
    record = storage.begin("conv", {"task": "conv", "unicode": "µs — ☃"})
    propose(record)
    outcomes: list[Outcome] = [Synthetic().judge("one"), BuildFailed(reason="error: x\0y ☃")]
    for number, outcome in enumerate(outcomes):
        record.add_node(node(number, f"source {number} ☃"))
        record.add_outcome(record.graph.nodes[number], outcome, key=f"k{number}", elapsed=number)
    record.add_node(node(2, "pending"))
    record.add_dead_end(Step(SLOT, 0, 3))
    record.finish_search("candidates 2")
    again = storage.record(record.run)
    assert again.graph.nodes == record.graph.nodes
    assert [one.outcome for one in again.graph.nodes] == [*outcomes, None]
    assert again.graph.dead_ends == {Step(SLOT, 0, 3)}
    assert again.graph.proposals[SLOT].ideas == (IDEA,)
    assert (again.stop_reason, again.elapsed) == ("candidates 2", 1)
    record.finish({"best": None})
    (row,) = storage.runs()
    assert (row.status, row.report, row.about["unicode"]) == ("finished", {"best": None}, "µs — ☃")
    assert storage.retrievals() == [(record.run, ("kb:ideas/tile.md",))]


def test_an_unknown_run_is_one_line_with_the_latest_ones(storage: Storage) -> None:
    storage.begin("conv", {})
    with pytest.raises(StoreError, match=r"no run 'conv-7': latest are conv-1"):
        storage.run("conv-7")


def test_a_name_of_any_length_is_kept_whole(storage: Storage) -> None:
    record = storage.begin("n" * 300, {})
    assert storage.run(record.run).run == "n" * 300 + "-1"


def test_runs_that_begin_at_once_get_names_of_their_own(storage: Storage) -> None:
    with ThreadPoolExecutor(8) as pool:
        names = list(pool.map(lambda _: storage.begin("conv", {}).run, range(16)))
    assert sorted(names) == sorted(f"conv-{number}" for number in range(1, 17))


@pytest.mark.parametrize("committed", [False, True])
def test_a_run_begins_once_where_its_connection_is_lost(engine: Engine, committed: bool) -> None:
    if engine.dialect.name != "postgresql":
        pytest.skip("a file has no connection to lose")
    lost: list[int] = []

    def lose(connection: Connection) -> None:
        if lost:
            return
        pid = connection.scalar(text("SELECT pg_backend_pid()"))
        lost.append(pid)
        if committed:
            connection.exec_driver_sql("COMMIT")
        server = create_engine(engine.url, isolation_level="AUTOCOMMIT")
        with server.connect() as other:
            other.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": pid})
        server.dispose()
        connection.exec_driver_sql("SELECT 1")

    storage = Storage(engine)  # its tables are there before
    event.listen(engine, "commit", lose)
    record = storage.begin("conv2d", {"author": "recipes"})
    assert lost
    assert [row.run for row in storage.runs()] == [record.run]


def test_runs_that_store_the_same_content_at_once_disturb_each_other_nowhere(
    storage: Storage,
) -> None:
    records = [storage.begin("conv", {}) for _ in range(8)]

    def write(record: Record) -> None:
        propose(record)
        for number in range(6):
            record.add_node(node(number, f"source {number}"))
            outcome = Synthetic().judge(f"source {number}")
            key = f"k{number}"
            record.add_outcome(record.graph.nodes[number], outcome, key=key, elapsed=1)
            storage.keep_outcome(f"other {number}", outcome)
            storage.put(key, request(key), REPLY)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, records))
    for record in records:
        assert storage.record(record.run).graph.nodes == record.graph.nodes
    assert storage.outcome("k5") == storage.outcome("other 5") == Synthetic().judge("source 5")


def test_the_first_reply_to_a_request_stays(storage: Storage) -> None:
    asked = request("why?")
    storage.put(asked.key(), asked, REPLY)
    storage.put(asked.key(), asked, Reply(**{**vars_of(REPLY), "text": "no"}))
    assert storage.get(asked.key()) == REPLY
    kept = storage.exchange(asked.key())
    assert kept is not None
    assert kept[0]["messages"] == [{"role": "user", "content": "why?"}]
    assert storage.get("nothing") is None


def vars_of(reply: Reply) -> dict[str, object]:
    return {name: getattr(reply, name) for name in reply.__dataclass_fields__}


def test_what_a_run_was_given_is_read_once(engine: Engine) -> None:
    kept = TypeAdapter(list[int])
    first = RunSnapshot(engine, "r-1").once("hits", "q", kept, lambda: [1, 2])
    again = RunSnapshot(engine, "r-1").once("hits", "q", kept, lambda: [3])
    assert first == again == [1, 2]


def test_what_models_cost_outlives_the_process(engine: Engine) -> None:
    ledger = Ledger(engine, StopSettings()).open("r-1")
    ledger.noted("code")(request("a"), REPLY, True)
    ledger.noted("code")(request("b"), REPLY, False)
    ledger.choose("0.0", "m")
    again = Ledger(engine, StopSettings()).open("r-1")
    assert again.chosen("0.0") == "m"
    rows = spending(engine, "r-1")
    assert [(row["paid"], row["calls"], row["tokens_out"]) for row in rows] == [
        (False, 1, 2),
        (True, 1, 2),
    ]


@pytest.mark.slow
def test_a_search_writes_the_same_graph_to_each_database(storage: Storage, tmp_path: Path) -> None:
    settings = play.settings_of()
    record = storage.begin("play", {})
    play.play(storage, record, settings)
    other = Storage(open_file(tmp_path / "beside.sqlite"))
    beside = other.begin("play", {})
    play.play(other, beside, settings)
    assert record.graph.judged > 10
    assert storage.record(record.run).graph.nodes == beside.graph.nodes


@pytest.mark.slow
def test_a_killed_run_is_gone_on_with_from_the_database(storage: Storage, tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = [sys.executable, play.__file__, str(tmp_path / "home"), str(log)]
    place = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    process = subprocess.Popen(command, env={**os.environ, **place})
    while not log.exists() or len(log.read_text().splitlines()) < 5:
        assert process.poll() is None
        time.sleep(0.01)
    process.kill()
    process.wait()
    (row,) = storage.runs()
    assert row.status == "running"
    record = storage.record(row.run)
    assert record.graph.judged >= 4
    play.play(storage, record, play.settings_of())
    whole = Storage(open_file(tmp_path / "beside.sqlite"))
    unbroken = whole.begin("play", {})
    play.play(whole, unbroken, play.settings_of())
    assert storage.record(row.run).graph.nodes == unbroken.graph.nodes


def test_of_two_runs_that_judge_one_source_at_once_the_first_outcome_is_both_runs(
    storage: Storage,
) -> None:
    records = [storage.begin("t", {}) for _ in range(2)]
    for record, reason in zip(records, ("first", "second"), strict=True):
        propose(record)
        record.add_node(node(0, "source"))
        record.add_outcome(node(0, "source"), BuildFailed(reason=reason), key="k", elapsed=1.0)
    for record in records:
        outcome = record.graph.nodes[0].outcome
        assert isinstance(outcome, BuildFailed)
        assert outcome.reason == "first"
        assert storage.record(record.run).graph.nodes == record.graph.nodes


def test_what_a_busy_machine_told_is_one_runs_alone(storage: Storage) -> None:
    ratio = Ratio(ratio=1.0, low=0.9, high=1.1, confidence=0.95)
    quiet = Passed(
        seconds=1e-3, samples=9, speedup={"eager": ratio}, max_error=0.0, allowed_error=1.0
    )
    busy = replace(quiet, profile={"seen": 0.1})
    first, second = (storage.begin("t", {}) for _ in range(2))
    for record, outcome in ((first, busy), (second, quiet)):
        propose(record)
        record.add_node(node(0, "source"))
        assert storage.outcome("k") is None
        record.add_outcome(node(0, "source"), outcome, key="k", elapsed=1.0)
    assert storage.outcome("k") == quiet
    for record, outcome in ((first, busy), (second, quiet)):
        assert storage.record(record.run).graph.nodes[0].outcome == outcome
