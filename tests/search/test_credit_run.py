"""A search over a real knowledge base: what it measures moves what the next one is shown."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from play import Watcher, settings_of

from kb.config import Home
from kb.database import open_engine, reading
from kb.knowledge import Knowledge, open_knowledge
from kb.records.types import Hit, Query, Scope
from kb.retrieval.effect_store import RetrievalRow, UseRow
from search.attempt import Attempt, Diagnosis, Draft, Idea, Moment
from search.drivers.sequential import Driver
from search.lessons.credit import keep_credits
from search.lessons.setting import Setting
from search.loop import Search
from search.outcome import BuildFailed, Outcome, Passed, Ratio
from search.policies import POLICIES
from search.prompting.readings import RecordingRetriever
from search.runs.storage import Record, Storage

IDEA = """---
kind: idea
title: {title}
category: memory access
symptoms: [memory-bound]
---
## What to do

{text}
"""
IDEAS = {
    "pad-rows": ("Pad the rows of a tile", "Pad each row of the tile in memory by one element."),
    "keep-rows": ("Keep rows in registers", "Keep each row of the tile in registers, not memory."),
    "swap-loops": ("Swap the loops over a tile", "Walk the tile along memory: swap both loops."),
}
WINNER = "keep-rows"
QUERY = Query(
    text="rows of a tile in memory",
    scope=Scope(operator=("softmax",), architecture=("zen3",)),
    symptoms=("memory-bound",),
)


class Reader:
    """Proposes every idea that retrieval returns, in its order."""

    def __init__(self, witness: RecordingRetriever) -> None:
        self._witness = witness

    def ideas(self, moment: Moment, count: int) -> tuple[Idea, ...]:
        hits = self._witness.search(QUERY)
        names = {hit.passage.document.split("/")[-1].removesuffix(".md"): hit for hit in hits}
        return tuple(
            Idea(
                title=f"{name} {moment.seed}",
                text="text",
                category="memory access",
                record=name,
                passages=(hit.passage.id,),
            )
            for name, hit in names.items()
        )

    def draft(
        self, moment: Moment, idea: Idea, branch: int, siblings: tuple[Attempt, ...]
    ) -> Draft | None:
        return Draft(source=f"{idea.title} {branch}", passages=idea.passages)

    def repair(self, moment: Moment, failed: Attempt) -> Draft | None:
        return None


class Judge:
    """Passes the winner, twice as fast each time, and fails the rest to build."""

    def judge(self, source: str, *, thorough: bool = False) -> Outcome:
        if not source.startswith(WINNER):
            return BuildFailed(reason="no")
        ratio = Ratio(ratio=2.0, low=1.99, high=2.01)
        return Passed(
            seconds=1.0, samples=9, speedup={"eager": ratio}, max_error=0.0, allowed_error=1.0
        )


def order(hits: list[Hit]) -> list[str]:
    return list(dict.fromkeys(hit.passage.document for hit in hits))


def play(knowledge: Knowledge, storage: Storage, record: Record, rounds: int) -> None:
    settings = settings_of(search={"rounds": rounds, "ideas": 3, "branches": 2})
    witness = RecordingRetriever(knowledge.retriever)
    search = Search(
        record,
        POLICIES.create(settings.search.policy),
        settings,
        lambda attempt: Diagnosis(symptoms=QUERY.symptoms, lines=()),
        lambda: 0.0,
        context="zen3",
    )
    Driver(search, Reader(witness), Judge(), storage, witness, Watcher()).run()
    setting = Setting(
        run=record.run,
        task="rows",
        identity="rows/1",
        target="zen3",
        architecture="zen3",
        language="cpp",
        families=QUERY.scope.operator,
        symptoms=QUERY.symptoms,
        shapes="64x1024 -> 64x1024",
        eager_seconds=1.0,
        diagnose=lambda attempt: Diagnosis(symptoms=QUERY.symptoms, lines=()),
    )
    keep_credits(storage.engine, record.graph, {}, setting, time.time())


@pytest.fixture
def library(tmp_path: Path) -> Path:
    folder = tmp_path / "library" / "ideas"
    folder.mkdir(parents=True)
    for name, (title, text) in IDEAS.items():
        (folder / f"{name}.md").write_text(IDEA.format(title=title, text=text))
    return folder.parent


@pytest.mark.slow
def test_what_a_run_measured_moves_what_the_next_one_is_shown(
    library: Path, tmp_path: Path
) -> None:
    home = Home(tmp_path / "home")
    knowledge = open_knowledge(home, shipped=library)
    storage = Storage(open_engine(home))
    before = order(knowledge.retriever.search(QUERY))
    assert len(before) == 3

    record = storage.begin("rows", {})
    play(knowledge, storage, record, rounds=2)
    began = storage.run(record.run).started
    played = len(record.graph.nodes)
    assert played >= 12

    hits = open_knowledge(home, shipped=library).retriever.search(QUERY)
    assert order(hits)[0] == f"kb:ideas/{WINNER}.md"
    effects = {hit.passage.document: hit.why.effect for hit in hits}
    won = effects.pop(f"kb:ideas/{WINNER}.md")
    assert won is not None
    assert won.gain > 0
    assert won.used == won.won + won.even  # the second round stands on the first: no gain
    assert won.retrieved == len(record.graph.proposals)
    for lost in effects.values():
        assert lost is not None
        assert lost.failed == lost.used > 0
        assert lost.gain < 0

    # Resumed, it ranks as it did when it began, and counts nothing twice.
    again = open_knowledge(home, shipped=library, as_of=began)
    assert order(again.retriever.search(QUERY)) == before
    counted = counts(storage)
    play(again, storage, storage.record(record.run), rounds=2)
    assert counts(storage) == counted


def counts(storage: Storage) -> tuple[int, int]:
    with reading(storage.engine) as session:
        return session.query(UseRow).count(), session.query(RetrievalRow).count()
