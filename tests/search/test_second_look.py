"""Before a run reports or learns, its best are judged again by a judge that was never searched against."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from machines import BOUNDLESS
from play import Deterministic, Silent, Watcher, open_storage, settings_of

from search.attempt import Attempt, Diagnosis
from search.drivers.sequential import Driver
from search.judging.synthetic import Synthetic
from search.lessons.distill import lessons
from search.lessons.setting import Setting
from search.loop import Search
from search.outcome import Outcome, Passed, Refused, Wrong
from search.policies import POLICIES
from search.prompting.readings import RecordingRetriever
from search.runs.report import build_report
from search.runs.storage import Record, Storage
from search.second_look import SecondLook, finalists, settled

SETTING = Setting(
    run="play-1", task="play", identity="0" * 16, target=BOUNDLESS.name, architecture="any",
    language="cpp", families=("elementwise",), symptoms=("memory-bound",), shapes="4x4 -> 4x4",
    eager_seconds=1e-3, at=date(2026, 1, 1),
)  # fmt: skip


def cheats(source: str, share: int) -> bool:
    return sum(source.encode()) % share == 0


class Fooled(Synthetic):
    """A first judge before whom one source in `share` is ten times faster than it is."""

    def __init__(self, share: int) -> None:
        super().__init__()
        self.share = share

    def judge(self, source: str, *, thorough: bool = False) -> Outcome:
        outcome = super().judge(source)
        if not isinstance(outcome, Passed) or not cheats(source, self.share):
            return outcome
        ratio = replace(outcome.speedup["eager"], ratio=40.0, low=40.0, high=40.0)
        return replace(outcome, seconds=2.5e-5, speedup={"eager": ratio})


class Second(Synthetic):
    """A second judge, which sees it."""

    def __init__(self, share: int) -> None:
        super().__init__()
        self.share = share

    def judge(self, source: str, *, thorough: bool = False) -> Outcome:
        outcome = super().judge(source)
        if cheats(source, self.share):
            return Wrong(reason="a timed call on 'spiked' inputs differs")
        return outcome


def run(tmp_path: Path, share: int) -> tuple[Storage, Record, Second, dict[int, Outcome]]:
    storage = open_storage(tmp_path)
    record = storage.begin("play", {})
    settings = settings_of()
    search = Search(
        record,
        POLICIES.create(settings.search.policy),
        settings,
        lambda attempt: Diagnosis(symptoms=(), lines=()),
        lambda: 0.0,
        context="play",
    )
    judge, second = Fooled(share), Second(share)
    driver = Driver(
        search, Deterministic(), judge, storage, RecordingRetriever(Silent()), Watcher()
    )
    driver.run()
    return storage, record, second, driver.confirm("play", second)


def false_ones(record: Record, share: int) -> set[int]:
    return {node.number for node in record.graph.nodes if cheats(node.draft.source, share)}


def test_a_winner_that_fools_one_judge_is_not_reported(tmp_path: Path) -> None:
    _, record, _second, confirmed = run(tmp_path, 7)
    false = false_ones(record, 7)
    assert record.graph.ranked()[0].number in false
    report = build_report({"run": "play-1"}, record.graph, confirmed, stop_reason="", seconds=1.0)
    assert report["best"] is not None
    assert report["best"]["node"] not in false
    assert report["best"]["speedup"]["eager"]["ratio"] < 5
    assert report["outcomes"]["refused"] >= 1
    refused = [one for one in confirmed.values() if isinstance(one, Refused)]
    assert any(
        "before a second judge" in one.reason and "'spiked'" in one.reason for one in refused
    )


def test_nothing_is_learned_from_a_winner_that_fooled_one_judge(tmp_path: Path) -> None:
    _, record, _second, confirmed = run(tmp_path, 7)
    told = lessons(record.graph, confirmed, SETTING)
    fooled = lessons(record.graph, {}, SETTING)
    assert any(
        evidence.gain and evidence.gain > 5 for one in fooled for evidence in one.record.evidence
    )
    for one in told:
        for evidence in one.record.evidence:
            assert (
                evidence.node not in false_ones(record, 7) or not evidence.gain or evidence.gain < 5
            )


def test_what_came_of_a_refused_candidate_is_withdrawn_unless_it_passes_itself(
    tmp_path: Path,
) -> None:
    _, record, _second, confirmed = run(tmp_path, 5)
    fallen = {number for number, outcome in confirmed.items() if isinstance(outcome, Refused)}
    parents = {node.number: node.parent for node in record.graph.nodes}
    for attempt in record.graph.ranked():
        if parents[attempt.number] in fallen:
            assert attempt.number in confirmed


def test_however_many_are_refused_the_second_judge_has_an_end(tmp_path: Path) -> None:
    _, record, second, confirmed = run(tmp_path, 1)
    assert len(second.judged) <= 9
    report = build_report({"run": "play-1"}, record.graph, confirmed, stop_reason="", seconds=1.0)
    assert report["best"] is None


def test_a_second_outcome_is_asked_for_once(tmp_path: Path) -> None:
    storage, record, second, confirmed = run(tmp_path, 7)
    looked = len(second.judged)
    assert SecondLook(second, storage, "play").run(record.graph) == confirmed
    assert len(second.judged) == looked


def test_honest_finalists_are_judged_again_and_no_others(tmp_path: Path) -> None:
    _, record, _second, confirmed = run(tmp_path, 10**9)
    assert sorted(confirmed) == sorted(one.number for one in finalists(record.graph))
    assert all(isinstance(one, Passed) for one in confirmed.values())


@pytest.mark.parametrize(("width", "again"), [(1.001, [1, 2]), (1.05, [1, 2, 3])])
def test_those_are_measured_again_whose_intervals_reach_the_best(
    width: float, again: list[int], tmp_path: Path
) -> None:
    graph = run(tmp_path, 10**9)[1].graph
    one = graph.ranked()[0]
    timed = [
        timed_at(one, number, {"eager": speed}, width)
        for number, speed in enumerate((4.0, 3.9, 3.6), 1)
    ]
    graph.ranked = lambda: timed  # type: ignore[method-assign]
    assert [attempt.number for attempt in finalists(graph)] == again


def timed_at(attempt: Attempt, number: int, speeds: dict[str, float], width: float) -> Attempt:
    assert isinstance(attempt.outcome, Passed)
    like = attempt.outcome.speedup["eager"]
    speedup = {
        name: replace(like, ratio=speed, low=speed / width, high=speed * width)
        for name, speed in speeds.items()
    }
    draft = replace(attempt.draft, source=f"# {number}")
    return replace(
        attempt, number=number, draft=draft, outcome=replace(attempt.outcome, speedup=speedup)
    )


@pytest.mark.parametrize(("over_compile", "looks"), [(0.97, 1), (1.0, 1), (1.05, 2)])
def test_one_is_enough_where_the_best_gained_nothing_over_some_baseline(
    over_compile: float, looks: int, tmp_path: Path
) -> None:
    graph = run(tmp_path, 10**9)[1].graph
    one = graph.ranked()[0]
    speeds = {"eager": 1.6, "compile": over_compile}
    timed = [timed_at(one, number, speeds, 1.001) for number in (1, 2)]
    graph.ranked = lambda: timed  # type: ignore[method-assign]
    assert len(finalists(graph)) == looks
    timed.append(timed_at(one, 3, speeds, 1.2))  # its interval says that it may have
    assert len(finalists(graph)) == 3


@pytest.mark.parametrize(
    "outcome", [Wrong(reason="no"), Refused(reason="no", trick="cached-output")]
)
def test_what_does_not_pass_again_is_refused(outcome: Outcome) -> None:
    found = settled(outcome)
    assert isinstance(found, Refused)
    assert found.trick == getattr(outcome, "trick", "second-look")
    assert found.reason.endswith(f"{outcome.kind}: no")
