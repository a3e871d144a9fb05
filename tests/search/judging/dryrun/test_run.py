"""A search over outcomes that were not timed: it ranks, reports and teaches nothing."""

from __future__ import annotations

import hashlib
from typing import Any

from play import Deterministic, Silent, Watcher, open_storage, settings_of

from search.attempt import Diagnosis
from search.drivers.sequential import Driver
from search.lessons.distill import lessons
from search.lessons.setting import Setting
from search.loop import Search
from search.outcome import BuildFailed, Checked, Kernel, Outcome
from search.policies import POLICIES
from search.prompting.describe import trials_of_ideas, verdict
from search.prompting.readings import RecordingRetriever
from search.runs.report import build_report
from search.won_or_lost import gains


class Compiles:
    """Makes outcomes of a dry run up, the same for the same source."""

    def judge(self, source: str, *, thorough: bool = False) -> Outcome:
        digest = hashlib.sha256(source.encode()).digest()
        if digest[0] < 32:
            return BuildFailed(reason="made up")
        kernel = Kernel(
            name="k", architecture="sm_90", registers=40, shared=1024, spills=digest[1] // 128 * 64,
            stack=0, warps=4, occupancy=0.5, limited_by=("registers",), launches=1 + digest[2] % 3,
        )  # fmt: skip
        return Checked(kernels=(kernel,), max_error=1e-7, allowed_error=1e-6)


def run(folder: Any) -> tuple[Any, Any]:
    storage = open_storage(folder)
    record = storage.begin("play", {})
    settings = settings_of()
    search = Search(
        record,
        POLICIES.create("beam"),
        settings,
        lambda attempt: Diagnosis(symptoms=(), lines=()),
        lambda: 0.0,
        context="dry",
    )
    driver = Driver(
        search, Deterministic(), Compiles(), storage, RecordingRetriever(Silent()), Watcher()
    )
    driver.run()
    return storage.record(record.run), driver.confirm("dry")


def test_a_search_goes_on_from_the_best_by_merit(tmp_path):
    record, confirmed = run(tmp_path)
    graph = record.graph
    parents = {node.parent for node in graph.nodes if node.parent is not None}
    ranked = graph.ranked()
    assert ranked
    merits = [attempt.merit for attempt in ranked]
    assert merits == sorted(merits, reverse=True)
    good = {attempt.number for attempt in ranked}
    second_round = {n.parent for n in graph.nodes if n.step.slot.round == 1 and not n.step.repair}
    assert second_round <= good
    assert parents
    report = build_report({"run": "play-1"}, graph, confirmed, stop_reason="done", seconds=1.0)
    assert report["timed"] is False
    best = report["best"]
    assert best["timed"] is False
    assert best["merit"] == max(merits)
    assert best["kernels"][0]["registers"] == 40
    assert not {"seconds", "speedup"} & best.keys()


def test_a_dry_run_teaches_nothing(tmp_path):
    record, confirmed = run(tmp_path)
    setting = Setting(
        run="play-1", task="play", identity="0" * 16, target="h100", architecture="sm_90",
        language="triton", families=("elementwise",), symptoms=(), shapes="1 -> 1",
        eager_seconds=1.0,
    )  # fmt: skip
    assert lessons(record.graph, confirmed, setting) == []


def test_a_prompt_says_what_was_compiled_and_no_time(tmp_path):
    record, _ = run(tmp_path)
    attempt = record.graph.ranked()[0]
    text = "\n".join(verdict(attempt.outcome))
    assert "nothing was timed" in text
    assert "40 registers" in text
    assert "occupancy 50% by registers" in text
    trials = trials_of_ideas(gains(record.graph.attempts()))
    assert any("implementations passed" in line for trial in trials for line in trial.results)
