"""A run whose best are cheats, one of each cause: it ends, each is named, and nothing is learned from them.

The judge of the search believes them all, as an older one may have. The second judge is the real one.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from machines import BOUNDLESS
from play import Silent, Watcher, open_storage, settings_of

from search.attempt import Attempt, Diagnosis, Draft, Idea, Moment
from search.drivers.sequential import Driver
from search.judging.corpus.cases import Bait, load_cases, reference_source
from search.judging.corpus.run import open_judge
from search.judging.synthetic import Synthetic
from search.lessons.distill import lessons
from search.lessons.setting import Setting
from search.loop import Search
from search.outcome import Outcome, Passed, Ratio, Refused
from search.policies import POLICIES
from search.prompting.readings import RecordingRetriever
from search.runs.report import build_report
from search.runs.storage import Storage
from search.runs.verdicts import counting_key
from search.sandbox.zygote import Zygote

pytestmark = pytest.mark.slow

# By task, so that few judges are started: the causes of docs/cheats.md.
CAUSES: dict[tuple[str, str], dict[str, str]] = {
    ("norm", ""): {
        "work after the clock has stopped": "says_done_too_early",
        "time outside the clock": "dawdles_before_it_is_ready",
        "other work when timed": "cached_once_timed",
        "memory that is not the answer's own": "reused_buffer",
        "inputs that can be foreseen": "predicts_its_inputs",
        "a slow stop": "watches_its_signals_a_thousand_times",
    },
    ("steps", ""): {"work before the clock starts": "works_before_ready"},
    ("growth", ""): {"guessing the range": "guesses_the_range_from_some_elements"},
    ("linear", "forbidden"): {
        "packing where it is forbidden": "packs_when_a_weight_changes",
        "parameters that are none": "reads_its_parameters_from_the_judge",
    },
    ("table", ""): {"a table of all answers": "folds_the_network_into_a_table"},
}
SETTING = Setting(
    run="", task="play", identity="0" * 16, target=BOUNDLESS.name, architecture="any",
    language="cpp", families=("elementwise",), symptoms=("memory-bound",), shapes="4x4 -> 4x4",
    eager_seconds=1e-3, at=date(2026, 1, 1),
)  # fmt: skip


def passed(speedup: float) -> Passed:
    ratio = Ratio(ratio=speedup, low=speedup * 0.99, high=speedup * 1.01)
    return Passed(
        seconds=1e-3 / speedup,
        samples=9,
        speedup={"eager": ratio},
        max_error=0.0,
        allowed_error=1.0,
    )


class Writes:
    """Has one idea for each source."""

    def __init__(self, sources: dict[str, str]) -> None:
        self.sources = sources

    def ideas(self, moment: Moment, count: int) -> tuple[Idea, ...]:
        return tuple(
            Idea(title=name, text=f"Do {name}.", category="memory access") for name in self.sources
        )

    def draft(
        self, moment: Moment, idea: Idea, branch: int, siblings: tuple[Attempt, ...]
    ) -> Draft | None:
        return Draft(source=self.sources[idea.title])

    def repair(self, moment: Moment, failed: Attempt) -> Draft | None:
        return None


class Fooled(Synthetic):
    """Believes that each cheat is forty times as fast."""

    def __init__(self, honest: str) -> None:
        super().__init__()
        self.honest = honest

    def judge(self, source: str, *, thorough: bool = False) -> Outcome:
        return passed(1.5 if source == self.honest else 40.0)


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Storage:
    return open_storage(tmp_path_factory.mktemp("home"))


@pytest.mark.parametrize("task", CAUSES, ids=lambda task: "-".join(filter(None, task)))
def test_a_run_whose_best_are_cheats_ends_names_them_and_learns_nothing(
    task: tuple[str, str], storage: Storage, warm: Zygote, tmp_path: Path
) -> None:
    reference, packing = task
    cases = {case.name: case for case in load_cases("cpu", ("cheats",))}
    names = CAUSES[task].values()
    bait = Bait(tmp_path / "bait")
    honest = reference_source("cpu", reference).replace("class Model(", "class ModelNew(")
    sources = {name: bait.place(cases[name].source) for name in names}
    record = storage.begin(reference, {"source": reference, "settings": {}})
    search = Search(
        record,
        POLICIES.create("greedy"),
        settings_of(search={"rounds": 1, "ideas": len(sources) + 1, "branches": 1}),
        lambda attempt: Diagnosis(symptoms=(), lines=()),
        lambda: 0.0,
        context=reference,
    )
    writer = Writes({**sources, "honest": honest})
    witness = RecordingRetriever(Silent())
    driver = Driver(search, writer, Fooled(honest), storage, witness, Watcher())
    driver.run()
    assert record.graph.ranked()[0].idea.title != "honest"

    settings = {"packing": packing} if packing else {}
    judge = open_judge("cpu", reference, settings, tmp_path, warm)
    try:
        confirmed = driver.confirm(reference, judge)
    finally:
        judge.close()

    report = build_report(
        {"run": record.run}, record.graph, confirmed, stop_reason=record.stop_reason, seconds=1.0
    )
    record.finish(report)
    titles = {node.number: node.idea.title for node in record.graph.nodes}
    assert report["stop_reason"]
    assert titles[report["best"]["node"]] == "honest"
    assert {titles[one["node"]] for one in report["withdrawn"]} == set(names)
    assert all("before a second judge" in one["reason"] for one in report["withdrawn"])

    told = lessons(record.graph, confirmed, replace(SETTING, run=record.run))
    for lesson in told:
        assert not set(names) & set(lesson.body.split())
        assert all(titles[one.node or 0] == "honest" for one in lesson.record.evidence)
    for source in sources.values():  # in the next run it is refused before it is asked anything
        key = counting_key(storage.engine, source, reference)
        assert isinstance(storage.outcome(key), Refused)
