"""A whole search by a real small model behind a real server: ideas, sources, repairs, refusals.

The model's content is nonsense. What is shown is that nothing breaks: that its ideas become nodes, that
useless replies become dead ends, that every call is booked, that caps end a run in good order, that
no key is left behind anywhere, and that the whole run plays again with no server.
"""

import json
import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from small_model import DIAGNOSIS, REFERENCE, Knowledge, OnePassage, processor, start
from sqlalchemy import select, text

from kb.config import Home
from kb.database import open_engine
from search.authors.llm import LanguageModel
from search.authors.model_pool import ModelPool, PoolMember
from search.drivers.replay import Findings, Listener, Player, RecordedJudge, Tape, missing
from search.drivers.sequential import Driver
from search.graph import Graph
from search.loop import Search
from search.outcome import BuildFailed, Outcome
from search.policies import POLICIES
from search.prompting.readings import RecordingRetriever
from search.runs.calls import CALLS
from search.runs.spending import Ledger, spending
from search.runs.storage import Record, Storage
from search.settings import ModelSettings
from search.task import Task, TaskFile
from synth.models import Model, Request
from synth.models.budgeted import BudgetedModel, Exhausted
from synth.models.openai import OpenAI
from synth.models.recorded import Recorded
from synth.models.scripted import ReplyRule, Scripted

pytestmark = [
    # The package that carries the token ranks opens them in a deprecated way when it is imported.
    pytest.mark.filterwarnings("ignore:open_binary is deprecated:DeprecationWarning"),
    pytest.mark.slow,
    pytest.mark.timed,
]

SECRET = "sk-planted-0123456789abcdef"
SMALL = ModelSettings(name="smollm2", context_tokens=1700, reply_tokens=220)
SOURCE = "```python\nfrom torch import nn\n\n\nclass ModelNew(nn.Module):\n    scale = 2\n```"


class Nothing:
    def begins(self, work: object) -> None: ...

    def ends(self, work: object, result: object) -> None: ...

    def confirms(self, node: int, outcome: Outcome) -> None: ...


class Refuses:
    """No candidate builds, so that each is mended."""

    def judge(self, source: str, *, thorough: bool = False) -> Outcome:
        return BuildFailed(reason="expected ';' at line 3", detail="k.cpp:3: error: expected ';'")


class Knows(Knowledge):
    def __init__(self) -> None:
        self.retriever = RecordingRetriever(OnePassage())


class Stage:
    """Everything of a run but its command line."""

    def __init__(self, folder: Path, *, asks: bool = False, **stop: object) -> None:
        self.asks = asks
        quiet = {"candidates": 2, "minutes": None, "stalled_rounds": None, "roofline": None}
        self.settings = TaskFile.model_validate(
            {
                "reference": "chain.py",
                "search": {"rounds": 1, "ideas": 1, "branches": 1},
                "stop": {**quiet, **stop},
            }
        )
        path = Path("chain.py")
        self.task = Task(
            name="chain", path=path, reference=path, source=REFERENCE, settings=self.settings
        )
        self.storage = Storage(open_engine(Home(folder)))
        self.said: list[str] = []

    def cast(self, ledger: Ledger, wrap: Callable[[Model, str], Model]) -> ModelPool:
        """The real model has ideas and mends; a script writes the sources that need mending."""
        writer = Scripted([ReplyRule(when=lambda _: True, texts=(SOURCE,))], name="writer")
        real = OpenAI("smollm2", base_url=start()[1], retries=0, say=self.said.append)
        brief = SMALL.model_copy(update={"reply_tokens": 64})  # enough for nonsense
        script = SMALL.model_copy(update={"name": "writer"})
        return ModelPool(
            {
                "ideas": [PoolMember(model=wrap(real, "ideas"), settings=SMALL)],
                "code": [PoolMember(model=wrap(writer, "code"), settings=script)],
                "repair": [PoolMember(model=wrap(real, "repair"), settings=brief)],
                **(
                    {"retrieval": [PoolMember(model=wrap(real, "retrieval"), settings=brief)]}
                    if self.asks
                    else {}
                ),
            },
            accounts=ledger,
        )

    def search(self, record: Record) -> Search:
        return Search(
            record,
            POLICIES.create("beam"),
            self.settings,
            lambda _: DIAGNOSIS,
            lambda: 0.0,
            context="real",
        )

    def run(self) -> tuple[Record, str | None]:
        record = self.storage.begin("chain", {"task": "chain"})
        ledger = Ledger(self.storage.engine, self.settings.stop).open(record.run)

        def wrap(model: Model, role: str) -> Model:
            paid = BudgetedModel(model, ledger, lambda _: 0.0)
            return Recorded(paid, self.storage, noted=ledger.noted(role))

        knows = Knows()
        author = LanguageModel(
            self.task, processor(), None, knows, self.cast(ledger, wrap), self.said.append
        )
        driver = Driver(
            self.search(record), author, Refuses(), self.storage, knows.retriever, Nothing()
        )
        try:
            driver.run()
        except Exhausted as spent:
            record.finish_search(str(spent))
        return record, record.stop_reason

    def replay(self, run: str, folder: Path) -> tuple[Findings, Graph]:
        """Play a run again in another record, with no model."""
        findings = Findings()
        recorded = self.storage.record(run).graph
        scratch = Storage(open_engine(Home(folder)))
        tape = Tape(self.storage, run, findings)
        ledger = Ledger(self.storage.engine, self.settings.stop).open(run).closed()
        knows = Knows()
        cast = self.cast(ledger, lambda model, role: Player(tape, model.name, role))
        author = LanguageModel(self.task, processor(), None, knows, cast, self.said.append)
        record = scratch.begin("chain", {})
        search = self.search(record)
        watcher = Listener(recorded, findings)
        verdicts = RecordedJudge(recorded, findings)
        Driver(search, author, verdicts, scratch, knows.retriever, watcher).run()
        return findings, record.graph


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KB_API_KEY", SECRET)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.mark.slow
def test_a_search_by_a_real_model_runs_is_booked_and_plays_again_without_it(
    planted: None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    stage = Stage(tmp_path / "home")
    record, reason = stage.run()
    assert reason is not None
    proposal = next(iter(record.graph.proposals.values()))
    if proposal.ideas:  # where the nonsense was an idea, it was written, refused and mended
        assert record.graph.judged >= 1
        assert record.graph.nodes[0].outcome == Refuses().judge("")
    rows = {(row["model"], row["role"]): row for row in spending(stage.storage.engine, record.run)}
    asked = rows["smollm2", "ideas"]
    assert asked["paid"]
    assert asked["tokens_in"] > 300
    assert asked["tokens_out"] > 0
    assert asked["seconds"] > 0
    if proposal.ideas:
        assert rows["smollm2", "repair"]["calls"] >= 1
    calls = sum(row["calls"] for row in rows.values())
    findings, graph = stage.replay(record.run, tmp_path / "again")
    assert findings.divergences == []
    assert findings.requests == calls
    assert missing(record.graph, graph) == []
    assert [node.draft for node in graph.nodes] == [node.draft for node in record.graph.nodes]
    # The key that was sent with every request is nowhere.
    assert SECRET not in caplog.text
    assert SECRET not in "\n".join(stage.said)
    for file in (tmp_path / "home").rglob("*"):
        assert file.is_dir() or SECRET.encode() not in file.read_bytes()


@pytest.mark.slow
def test_questions_by_a_real_model_are_booked_and_play_again_without_it(
    planted: None, tmp_path: Path
) -> None:
    stage = Stage(tmp_path / "home", asks=True)
    record, _ = stage.run()
    rows = {(row["model"], row["role"]): row for row in spending(stage.storage.engine, record.run)}
    asked = rows["smollm2", "retrieval"]
    assert asked["tokens_in"] > 300
    assert asked["tokens_out"] > 0
    calls = sum(row["calls"] for row in rows.values())
    findings, graph = stage.replay(record.run, tmp_path / "again")
    assert findings.divergences == []
    assert findings.requests == calls
    assert missing(record.graph, graph) == []


@pytest.mark.slow
def test_a_changed_reply_is_where_the_replay_diverges(planted: None, tmp_path: Path) -> None:
    stage = Stage(tmp_path / "home", requests=1)
    record, reason = stage.run()
    assert reason is not None
    assert "stop.requests 1: 1 spent" in reason
    (key,) = set(_keys(stage.storage, record.run))
    request, reply = stage.storage.exchange(key) or ({}, {})
    changed = json.dumps({**request, "temperature": 0.123})
    with stage.storage.engine.begin() as connection:
        connection.execute(
            text("UPDATE exchanges SET key='x', request=:r WHERE key=:k"), {"r": changed, "k": key}
        )
        connection.execute(text("UPDATE model_calls SET key='x' WHERE key=:k"), {"k": key})
    findings = Findings()
    tape = Tape(stage.storage, record.run, findings)
    played = tape.play(Request.from_json(json.dumps(request)), "ideas")
    assert played.text == reply["text"]
    (found,) = findings.divergences
    assert found.where == "request 1 (ideas)"
    assert any("temperature 0.123" in line for line in found.difference)


def _keys(storage: Storage, run: str) -> list[str]:
    with storage.engine.connect() as connection:
        return list(connection.scalars(select(CALLS.c.key).where(CALLS.c.run == run)))
