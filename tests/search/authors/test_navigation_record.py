"""Runs whose author asks for more: their record, what plays it again, and their letters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from asking import DIAGNOSIS, MODEL, MOMENT, REFERENCE, Heard, Place, asks, gives, task_of

from kb.app.resume import stored_task
from kb.config import Home
from kb.database import open_engine
from kb.errors import ModelError
from search.attempt import Idea
from search.authors.model_pool import ModelPool, PoolMember
from search.drivers.replay import Findings, Listener, Player, RecordedJudge, Tape
from search.drivers.sequential import Driver
from search.loop import Search
from search.outcome import Outcome, Refused
from search.policies import POLICIES
from search.prompting.knowledge_view import KnowledgeView
from search.runs.snapshot import RunSnapshot
from search.runs.spending import Ledger, spending
from search.runs.storage import Record, Storage
from synth.models import Model, Reply, Request
from synth.models.budgeted import BudgetedModel, Exhausted
from synth.models.mailbox.model import Mailbox
from synth.models.recorded import Recorded
from synth.models.scripted import ReplyRule, Scripted

# The package that carries the token ranks opens them in a deprecated way when it is imported.
pytestmark = pytest.mark.filterwarnings("ignore:open_binary is deprecated:DeprecationWarning")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("record"))


class Never:
    """Refuses whatever is written."""

    def judge(self, source: str, *, thorough: bool = False) -> Outcome:
        return Refused(reason="nothing is judged here", trick="none")


class Nothing:
    def begins(self, work: object) -> None: ...

    def ends(self, work: object, result: object) -> None: ...

    def confirms(self, node: int, outcome: Outcome) -> None: ...


class Killed(Scripted):
    """A model whose process dies at its second request."""

    def __init__(self, *texts: str) -> None:
        super().__init__(texts)
        self.asked = 0

    def reply(self, request: Request) -> Reply:
        self.asked += 1
        if self.asked > 1:
            raise ModelError("the machine was switched off")
        return super().reply(request)


class Stage:
    """Runs and replays of one task in one place, as `kb evolve`, `kb resume` and `kb replay` do."""

    def __init__(self, place: Place, **stop: object) -> None:
        self.place = place
        settings = task_of().settings
        stops = settings.stop.model_copy(update=stop)
        self.task = replace(task_of(), settings=settings.model_copy(update={"stop": stops}))

    def run(self, model: Model, run: Record | None = None) -> Record:
        storage = self.place.storage
        record = run or storage.begin("softmax", {"task": "softmax"})
        ledger = Ledger(storage.engine, self.task.settings.stop).open(record.run)

        def wrapped(role: str) -> Model:
            paid = BudgetedModel(model, ledger, lambda _: 0.0)
            return Recorded(paid, storage, noted=ledger.noted(role))

        memory = self.place.memory(given=RunSnapshot(storage.engine, record.run))
        self._drive(record, storage, memory, self._cast(wrapped, ledger), Never(), Nothing())
        return record

    def replay(self, run: str, folder: Path) -> Findings:
        findings = Findings()
        recorded = self.place.storage.record(run).graph
        scratch = Storage(open_engine(Home(folder)))
        tape = Tape(self.place.storage, run, findings)
        ledger = Ledger(self.place.storage.engine, self.task.settings.stop).open(run).closed()
        memory = self.place.memory(given=RunSnapshot(self.place.storage.engine, run, writes=False))
        cast = self._cast(lambda role: Player(tape, "scripted", role), ledger)
        verdicts, listener = RecordedJudge(recorded, findings), Listener(recorded, findings)
        self._drive(scratch.begin("softmax", {}), scratch, memory, cast, verdicts, listener)
        return findings

    def _cast(self, model: Callable[[str], Model], ledger: Any) -> ModelPool:
        roles = ("ideas", "code", "repair")
        voices = {one: [PoolMember(model=model(one), settings=MODEL)] for one in roles}
        return ModelPool(voices, accounts=ledger)  # type: ignore[arg-type]

    def _drive(
        self,
        record: Record,
        storage: Storage,
        memory: KnowledgeView,
        cast: ModelPool,
        judge: Any,
        watcher: Any,
    ) -> None:
        search = Search(
            record,
            POLICIES.create("beam"),
            self.task.settings,
            lambda _: DIAGNOSIS,
            lambda: 0.0,
            context="navigation",
        )
        author = self.place.author(cast, self.task, memory)
        driver = Driver(search, author, judge, storage, memory.retriever, watcher)
        try:
            driver.run()
        except Exhausted as spent:
            record.finish_search(str(spent))


@pytest.mark.slow
def test_a_run_with_requests_replays_and_resumes_without_paying_twice(tmp_path: Path) -> None:
    place = Place(tmp_path)
    stage = Stage(place)
    killed = Killed(asks("read online-softmax", "read zebra.md"))
    record = place.storage.begin("softmax", {"task": "softmax"})
    with pytest.raises(ModelError, match="switched off"):
        stage.run(killed, record)
    # What it read is gone before it goes on: it is given what the run was given.
    place.manual.unlink()
    place.knowledge.ingest([place.manual.parent])
    assert not place.memory().readings.read("zebra.md").found
    model = Heard(
        gives(),
        "```python\nfrom torch import nn\n\n\nclass ModelNew(nn.Module):\n    scale = 2\n```",
    )
    stage.run(model, place.storage.record(record.run))
    assert "Stripes of tiles alternate" in model.requests[0].messages[-1].content
    graph = place.storage.record(record.run).graph
    (proposal,) = graph.proposals.values()
    assert "kb:ideas/online-softmax.md" in proposal.retrieved
    assert any("zebra.md" in one for one in proposal.retrieved)
    (idea,) = proposal.ideas
    requests = [place.storage.exchange(key) for key in idea.exchanges]
    assert [one is not None for one in requests] == [True, True]
    calls = {row["role"]: row["calls"] for row in spending(place.storage.engine, record.run)}
    assert calls["ideas"] == 2
    findings = stage.replay(record.run, tmp_path / "again")
    assert findings.divergences == []
    assert findings.requests >= 3


@pytest.mark.slow
def test_a_cap_on_requests_counts_those_with_requests(place: Place) -> None:
    model = Heard(ReplyRule(when=lambda _: True, texts=(asks("read online-softmax"),)))
    record = Stage(place, requests=2).run(model)
    assert "stop.requests 2: 2 spent" in (record.stop_reason or "")
    assert len(model.requests) == 2


def test_a_run_from_before_there_were_requests_goes_on_without_them(tmp_path: Path) -> None:
    settings = task_of().settings.model_dump(mode="json")
    del settings["search"]["requests"]
    about = {"settings": settings, "task": "softmax", "path": "s.py", "reference": "s.py"}
    home = Home(tmp_path)
    old = stored_task(home, "softmax-1", {**about, "source": REFERENCE})
    assert old.settings.search.requests.steps == 0
    settings["search"]["requests"] = {"steps": 2, "tokens": 900}
    new = stored_task(home, "softmax-2", {**about, "source": REFERENCE})
    assert (new.settings.search.requests.steps, new.settings.search.requests.tokens) == (2, 900)


def test_a_letter_for_ideas_may_be_answered_with_requests(place: Place, tmp_path: Path) -> None:
    asking = place.author(Mailbox(tmp_path)).asks_ideas(MOMENT, 1)
    found: list[Idea] = []

    def look() -> None:
        """Look twice: an answer counts once it did not change between two looks."""
        try:
            next(asking)
            next(asking)
        except StopIteration as end:
            found.extend(end.value)

    def letter(number: int) -> Path:
        (name,) = tmp_path.glob(f"{number:03d}-ideas-*.json")
        return name.with_suffix("")

    def answer(name: Path, text: str) -> None:
        draft = tmp_path / "draft"
        draft.write_text(text)
        draft.rename(f"{name}.reply.md")

    look()
    first = letter(1)
    assert "It may hold `requests` in place of ideas" in Path(f"{first}.md").read_text()
    answer(first, f"First this.\n\n```json\n{asks('read online-softmax')}\n```\n")
    look()
    second = letter(2)
    text = Path(f"{second}.md").read_text()
    assert "What you asked for in an earlier letter stands at its end." in text
    assert "## read online-softmax" in text.split("What you asked for")[-1]
    answer(second, gives())
    look()
    assert [idea.title for idea in found] == ["Walk each row once"]
    assert list(tmp_path.glob("*.problem.md")) == [], "what was of use is not called useless"
    assert len(list(tmp_path.glob("*.json"))) == 2
