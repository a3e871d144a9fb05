"""Programs that won earlier runs count in a later one only where a second judge has passed them."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from play import Deterministic, Silent, Watcher, open_storage, settings_of
from test_second_look import SETTING, Fooled, Second, cheats

from search.attempt import Diagnosis
from search.drivers.sequential import Driver
from search.lessons.distill import lessons, verdicts
from search.lessons.evidence import Runs
from search.lessons.store import LessonStore
from search.lessons.withdrawal import refused_twins
from search.loop import Search
from search.outcome import Outcome, Refused
from search.policies import POLICIES
from search.prompting.readings import RecordingRetriever
from search.runs.report import best_of, build_report, reported
from search.runs.storage import Record, Storage
from search.runs.verdicts import keep_second
from search.second_look import awaited, finalists
from search.won_or_lost import gains

SHARE = 7
DAY = date(2026, 1, 2)
ABOUT = {"source": "the reference", "settings": {"precision": "strict"}}


class Home:
    """A record of runs and the lessons beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.storage: Storage = open_storage(folder)

    def run(
        self, context: str, *, second: bool, about: dict[str, object] = ABOUT
    ) -> tuple[Record, dict[int, Outcome], Second | Fooled]:
        """Search; have the best looked at by a judge that sees the cheats, or by the one that is fooled."""
        record = self.storage.begin("play", about)
        settings = settings_of()
        search = Search(
            record,
            POLICIES.create(settings.search.policy),
            settings,
            lambda attempt: Diagnosis(symptoms=(), lines=()),
            lambda: 0.0,
            context=context,
        )
        first, other = Fooled(SHARE), Second(SHARE) if second else Fooled(SHARE)
        witness = RecordingRetriever(Silent())
        driver = Driver(search, Deterministic(), first, self.storage, witness, Watcher())
        driver.run()
        confirmed = driver.confirm(context, other)
        report = build_report(
            {"run": record.run}, record.graph, confirmed, stop_reason="", seconds=1.0
        )
        record.finish(report)
        return record, confirmed, other

    def learn(self, record: Record, confirmed: dict[int, Outcome]) -> dict[str, str]:
        """Learn as a run does at its end; return what became of each lesson that changed."""
        setting = replace(SETTING, run=record.run)
        book = self.book(Runs(self.storage.engine).measured_again(record.run, confirmed))
        changes = book.withdraw(
            refused_twins(self.storage, record, confirmed), "its program was refused", DAY
        )
        told = verdicts(record.graph, confirmed, setting, lambda _: ())
        changes += book.learn(lessons(record.graph, confirmed, setting), told, DAY)
        return {change.lesson: change.fate for change in changes}

    def book(self, proof: Runs | None = None) -> LessonStore:
        return LessonStore(self.folder, (proof or Runs(self.storage.engine)).fault)

    def gains_of_cheats(self) -> list[str]:
        """Return the lessons in use that count a gain of a cheat."""
        fault = Runs(self.storage.engine).fault
        return [
            entry.name
            for entry in self.book().entries()
            if not entry.retired
            for one in entry.record.evidence
            if one.gain is not None and fault(one) is None and self._cheats(one.run, one.node)
        ]

    def _cheats(self, run: str | None, node: int | None) -> bool:
        graph = self.storage.record(run or "").graph
        return cheats(graph.nodes[node or 0].draft.source, SHARE)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home in which a cheat won a run before a judge that did not see it, and taught it."""
    home = Home(tmp_path)
    record, confirmed, _ = home.run("judge 1", second=False, about=ABOUT)
    winner = best_of(record.graph, confirmed)
    assert winner is not None
    assert cheats(winner[0].draft.source, SHARE)
    home.learn(record, confirmed)
    assert home.gains_of_cheats()
    return home


@pytest.mark.slow
def test_a_cheat_that_won_before_an_older_judge_neither_wins_nor_teaches(home: Home) -> None:
    record, confirmed, _ = home.run("judge 2", second=True)
    old = home.storage.record("play-1").graph
    assert {node.draft.source for node in old.nodes} & {
        node.draft.source for node in record.graph.nodes if cheats(node.draft.source, SHARE)
    }
    winner = best_of(record.graph, confirmed)
    assert winner is not None
    assert not cheats(winner[0].draft.source, SHARE)
    home.learn(record, confirmed)
    refused = {
        record.graph.nodes[number].draft.source
        for number, one in confirmed.items()
        if isinstance(one, Refused)
    }
    assert refused
    for entry in home.book().entries():
        for one in entry.record.evidence:
            source = home.storage.record(one.run or "").graph.nodes[one.node or 0].draft.source
            assert entry.retired or one.gain is None or source not in refused


@pytest.mark.slow
def test_a_lesson_whose_winner_is_refused_is_retired_and_the_next_winner_takes_its_place(
    home: Home,
) -> None:
    (won,) = [one for one in home.book().entries() if one.name.endswith("-won")]
    record, confirmed, _ = home.run("judge 2", second=True)
    fates = home.learn(record, confirmed)
    assert fates[won.name] in {"new", "replaced", "revived", "retired"}
    (now,) = [one for one in home.book().entries() if one.name == won.name]
    best = max(one.gain or 0.0 for one in now.record.evidence)
    assert best < 5
    assert "40.0" not in now.words


@pytest.mark.slow
def test_what_a_second_judge_refused_is_refused_at_once_in_the_next_run(home: Home) -> None:
    first, confirmed, _ = home.run("judge 2", second=True)
    refused = {
        first.graph.nodes[number].draft.source
        for number, one in confirmed.items()
        if isinstance(one, Refused) and "before a second judge" in one.reason
    }
    record, _, second = home.run("judge 2", second=True)
    again = [node for node in record.graph.nodes if node.draft.source in refused]
    assert again
    assert all(isinstance(node.outcome, Refused) for node in again)
    assert not refused & set(second.judged)
    # The record says so as well, not only the run that was at work.
    kept = home.storage.record(record.run).graph
    assert all(isinstance(kept.nodes[node.number].outcome, Refused) for node in again)


def test_under_other_rules_a_refusal_withdraws_nothing(home: Home) -> None:
    about = {**ABOUT, "settings": {"precision": "tf32"}}
    record, confirmed, _ = home.run("judge 2", second=True, about=about)
    assert any(isinstance(one, Refused) for one in confirmed.values())
    assert refused_twins(home.storage, record, confirmed)
    assert {run for run, _ in refused_twins(home.storage, record, confirmed)} == {record.run}


@pytest.mark.slow
def test_what_a_run_withdrew_teaches_nothing_when_it_is_learned_again(home: Home) -> None:
    record, _, _ = home.run("judge 2", second=True)
    again = reported(dict(home.storage.run(record.run).report or {}))
    assert any(isinstance(one, Refused) for one in again.values())
    for lesson in lessons(record.graph, again, replace(SETTING, run=record.run)):
        for one in lesson.record.evidence:
            assert one.node in again or not one.gain or one.gain < 5


@pytest.mark.slow
def test_an_imported_run_proves_nothing_until_a_judge_of_this_record_has_looked(
    home: Home,
) -> None:
    record, confirmed, _ = home.run("judge 3", second=False, about={**ABOUT, "imported": False})
    (won,) = [
        one
        for one in lessons(record.graph, confirmed, replace(SETTING, run=record.run))
        if one.name.endswith("-won")
    ]
    (evidence,) = won.record.evidence
    assert evidence.node is not None
    # Its outcomes have names of their own, as `kb import` gives them: nobody here has looked.
    about = {**ABOUT, "imported": True}
    foreign = home.storage.begin("foreign", about)
    for proposal in record.graph.proposals.values():
        foreign.add_proposal(proposal)
    for node in record.graph.nodes:
        assert node.outcome is not None
        foreign.add_node(replace(node, outcome=None))
        foreign.add_outcome(
            foreign.graph.nodes[node.number], node.outcome, key=f"own {node.number}", elapsed=0.0
        )
    named = evidence.model_copy(update={"run": foreign.run})
    assert "was imported" in (Runs(home.storage.engine).fault(named) or "")
    keep_second(home.storage, foreign.run, {evidence.node: confirmed[evidence.node]})
    assert Runs(home.storage.engine).fault(named) is None
    other = home.storage.begin("other", about)
    assert Runs(home.storage.engine).fault(named.model_copy(update={"run": other.run}))


@pytest.mark.slow
def test_of_a_run_that_was_broken_off_the_best_gain_nobody_anything_yet(home: Home) -> None:
    graph = home.storage.record("play-1").graph
    counted = {
        gain.attempt.number for gain in gains(graph.attempts(), awaited(graph)) if not gain.cheated
    }
    best = finalists(graph)
    assert best
    assert not counted & {one.number for one in best}
    assert counted
