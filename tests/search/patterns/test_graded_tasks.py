from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from kb.config import shipped_docs
from search.patterns.graded_tasks import (
    FILE,
    GradedTask,
    GradedTasks,
    TaskState,
    read_tasks,
    shipped_tasks,
)
from search.patterns.recognise import ReferenceTraits
from search.patterns.source import read_text
from search.patterns.traits import TRAITS

ROOT = Path(__file__).parents[3]


def state(
    traits: Iterable[str],
    device: str = "cpu",
    stage: str = "ideas",
    told: str = "",
    outcome: str = "",
) -> TaskState:
    program = ReferenceTraits(
        text=read_text("a task", ""), shares={"softmax": 1.0}, traits=dict.fromkeys(traits, "")
    )
    return TaskState.of(program, device, stage, told=told, outcome=outcome)


def graded(task: str, traits: Iterable[str], grades: Mapping[str, int]) -> GradedTask:
    return GradedTask(task=task, state=state(traits), grades=grades)


ROWS = graded("rows", ["rows", "long-rows"], {"ideas/rows": 3, "ideas/both": 2})
SORTED = graded("sorted", ["top-k", "ordering"], {"ideas/sort": 3, "ideas/both": 2})


def names(tasks: GradedTasks, traits: Iterable[str], device: str = "cpu") -> list[str]:
    return [one.record for one in tasks.expected(state(traits, device))]


def test_a_task_is_expected_to_be_helped_by_what_helped_those_with_its_traits() -> None:
    tasks = GradedTasks([ROWS, SORTED])
    assert names(tasks, ["rows", "long-rows"])[0] == "ideas/rows"
    assert names(tasks, ["top-k", "ordering"])[0] == "ideas/sort"
    first = tasks.expected(state(["rows", "long-rows"]))[0]
    assert first.reason == "graded as helping tasks like this one: rows"
    assert 0.5 < first.gain <= 1


def test_tasks_for_another_kind_of_device_tell_nothing() -> None:
    assert names(GradedTasks([ROWS, SORTED]), ["rows"], device="gpu") == []


def test_a_reference_that_was_not_traced_expects_nothing() -> None:
    assert names(GradedTasks([ROWS, SORTED]), []) == []


def test_a_record_is_not_blamed_for_tasks_that_were_graded_before_it_came() -> None:
    later = graded("later", ["rows", "long-rows"], {"ideas/new": 3})
    blamed = GradedTasks([ROWS, later]).expected(state(["rows", "long-rows"]))
    early = replace(ROWS, unknown=frozenset(["ideas/new"]))
    spared = GradedTasks([early, later]).expected(state(["rows", "long-rows"]))
    gain = {one.record: one.gain for one in blamed}
    assert {one.record: one.gain for one in spared}["ideas/new"] > gain["ideas/new"] + 0.2


def test_each_record_is_fitted_with_the_tasks_that_knew_it() -> None:
    first = replace(ROWS, unknown=frozenset(["ideas/new", "ideas/newest"]))
    second = replace(
        graded("second", ["rows", "long-rows"], {"ideas/new": 3}),
        unknown=frozenset(["ideas/newest"]),
    )
    third = graded("third", ["rows", "long-rows"], {"ideas/new": 3, "ideas/newest": 3})
    tasks = GradedTasks([first, second, third])
    gain = {one.record: one.gain for one in tasks.expected(state(["rows", "long-rows"]))}
    assert gain["ideas/new"] > gain["ideas/rows"] + 0.2  # one in three was helped by `rows`
    assert gain["ideas/newest"] > gain["ideas/rows"] + 0.2


def test_no_shipped_task_grades_what_it_did_not_know() -> None:
    for one in read_tasks(shipped_docs() / FILE):
        assert not one.unknown & one.grades.keys(), one.task


def test_every_shipped_record_was_known_to_some_task() -> None:
    tasks = read_tasks(shipped_docs() / FILE)
    newest = frozenset.intersection(*(one.unknown for one in tasks))
    assert not newest


def test_a_draft_is_expected_to_be_helped_by_what_helped_to_write_ideas_of_its_words() -> None:
    tiled = state(["rows"], stage="draft", told="Keep a tile of keys in registers.")
    sparse = state(["rows"], stage="draft", told="Gather rows by their index.")
    tasks = GradedTasks(
        [
            GradedTask(task="tiled", state=tiled, grades={"kernels/tiles": 3}),
            GradedTask(task="sparse", state=sparse, grades={"kernels/gather": 3}),
            GradedTask(task="both", state=tiled, grades={"kernels/tiles": 3}),
            GradedTask(task="neither", state=sparse, grades={"kernels/gather": 3}),
        ]
    )
    asked = state(["rows"], stage="draft", told="Hold the keys' tile on the chip.")
    gain = {one.record: one.gain for one in tasks.expected(asked)}
    assert gain["kernels/tiles"] > gain["kernels/gather"] + 0.1
    other = tasks.expected(replace(asked, stage="ideas"))
    gain = {one.record: one.gain for one in other}
    assert gain["kernels/tiles"] == pytest.approx(gain["kernels/gather"], abs=0.01)


def test_a_repair_is_expected_to_be_helped_by_what_helped_after_such_a_failure() -> None:
    crash = state(["rows"], stage="repair", outcome="crashed", told="SIGSEGV")
    wrong = state(["rows"], stage="repair", outcome="wrong", told="3 of 9 elements differ")
    tasks = GradedTasks(
        [
            GradedTask(task="crash", state=crash, grades={"guidance/crashes": 3}),
            GradedTask(task="wrong", state=wrong, grades={"guidance/numerics": 3}),
            GradedTask(task="again", state=crash, grades={"guidance/crashes": 3}),
            GradedTask(task="once more", state=wrong, grades={"guidance/numerics": 3}),
        ]
    )
    assert tasks.expected(crash)[0].record == "guidance/crashes"
    assert tasks.expected(wrong)[0].record == "guidance/numerics"


def test_a_task_can_be_asked_about_as_if_it_had_not_been_graded() -> None:
    assert "ideas/sort" not in GradedTasks([ROWS, SORTED]).without("sorted").names


@pytest.mark.parametrize("stage", ["ideas", "plateau", "draft", "repair"])
def test_the_shipped_tasks_speak_for_every_stage(stage: str) -> None:
    expected = shipped_tasks().expected(state(["rows", "long-rows"], stage=stage))
    assert len(expected) >= 10


def test_the_shipped_tasks_name_records_and_traits_that_exist() -> None:
    docs = shipped_docs()
    for one in read_tasks(docs / FILE):
        assert one.state.traits <= TRAITS.keys(), one.task
        lost = [name for name in one.grades if not (docs / f"{name}.md").is_file()]
        assert not lost, one.task


@pytest.mark.slow
def test_no_held_out_task_is_shipped() -> None:
    from benchmarks.loop_retrieval.cases import FOLDER, is_held_out

    shipped = {one["task"] for one in json.loads((shipped_docs() / FILE).read_text())["tasks"]}
    files = {path.stem: path for path in FOLDER.glob("*/*.yaml")}
    for name in shipped:
        lot = yaml.safe_load(files[name].read_text()).get("lot", "")
        assert lot or not is_held_out(name), name
