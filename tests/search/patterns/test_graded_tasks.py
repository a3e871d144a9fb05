from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from kb.config import shipped_docs
from search.patterns.graded_tasks import FILE, GradedTask, GradedTasks, read_tasks, shipped_tasks
from search.patterns.recognise import ReferenceTraits
from search.patterns.source import read_text
from search.patterns.traits import TRAITS

ROOT = Path(__file__).parents[3]


def program(traits: Iterable[str]) -> ReferenceTraits:
    return ReferenceTraits(
        text=read_text("a task", ""), shares={"softmax": 1.0}, traits=dict.fromkeys(traits, "")
    )


def graded(task: str, traits: Iterable[str], grades: Mapping[str, int]) -> GradedTask:
    return GradedTask(
        task=task,
        device="cpu",
        stage="ideas",
        traits=frozenset(traits),
        shares={"softmax": 1.0},
        grades=grades,
    )


ROWS = graded("rows", ["rows", "long-rows"], {"ideas/rows": 3, "ideas/both": 2})
SORTED = graded("sorted", ["top-k", "ordering"], {"ideas/sort": 3, "ideas/both": 2})


def names(tasks: GradedTasks, traits: Iterable[str], device: str = "cpu") -> list[str]:
    return [one.record for one in tasks.expected(program(traits), device, "ideas")]


def test_a_task_is_expected_to_be_helped_by_what_helped_those_with_its_traits() -> None:
    tasks = GradedTasks([ROWS, SORTED])
    assert names(tasks, ["rows", "long-rows"])[0] == "ideas/rows"
    assert names(tasks, ["top-k", "ordering"])[0] == "ideas/sort"
    first = tasks.expected(program(["rows", "long-rows"]), "cpu", "ideas")[0]
    assert first.reason == "graded as helping tasks with the same traits: rows"
    assert 0.5 < first.gain <= 1


def test_tasks_for_another_kind_of_device_tell_nothing() -> None:
    assert names(GradedTasks([ROWS, SORTED]), ["rows"], device="gpu") == []


def test_a_reference_that_was_not_traced_expects_nothing() -> None:
    assert names(GradedTasks([ROWS, SORTED]), []) == []


def test_a_record_is_not_blamed_for_tasks_that_were_graded_before_it_came() -> None:
    later = graded("later", ["rows", "long-rows"], {"ideas/new": 3})
    blamed = GradedTasks([ROWS, later]).expected(program(["rows", "long-rows"]), "cpu", "ideas")
    early = replace(ROWS, unknown=frozenset(["ideas/new"]))
    spared = GradedTasks([early, later]).expected(program(["rows", "long-rows"]), "cpu", "ideas")
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
    gain = {
        one.record: one.gain
        for one in tasks.expected(program(["rows", "long-rows"]), "cpu", "ideas")
    }
    assert gain["ideas/new"] > gain["ideas/rows"] + 0.2  # one in three was helped by `rows`
    assert gain["ideas/newest"] > gain["ideas/rows"] + 0.2


def test_no_shipped_task_grades_what_it_did_not_know() -> None:
    for one in read_tasks(shipped_docs() / FILE):
        assert not one.unknown & one.grades.keys(), one.task


def test_every_shipped_record_was_known_to_some_task() -> None:
    tasks = read_tasks(shipped_docs() / FILE)
    newest = frozenset.intersection(*(one.unknown for one in tasks))
    assert not newest


def test_a_task_can_be_asked_about_as_if_it_had_not_been_graded() -> None:
    assert "ideas/sort" not in GradedTasks([ROWS, SORTED]).without("sorted").names


@pytest.mark.parametrize("stage", ["ideas", "plateau", "draft", "repair"])
def test_the_shipped_tasks_speak_for_every_stage(stage: str) -> None:
    expected = shipped_tasks().expected(program(["rows", "long-rows"]), "cpu", stage)
    assert len(expected) >= 10


def test_the_shipped_tasks_name_records_and_traits_that_exist() -> None:
    docs = shipped_docs()
    for one in read_tasks(docs / FILE):
        assert one.traits <= TRAITS.keys(), one.task
        lost = [name for name in one.grades if not (docs / f"{name}.md").is_file()]
        assert not lost, one.task


def test_no_held_out_task_is_shipped() -> None:
    from benchmarks.loop_retrieval.cases import FOLDER, is_held_out

    shipped = {one["task"] for one in json.loads((shipped_docs() / FILE).read_text())["tasks"]}
    files = {path.stem: path for path in FOLDER.glob("*/*.yaml")}
    for name in shipped:
        lot = yaml.safe_load(files[name].read_text()).get("lot", "")
        assert lot or not is_held_out(name), name
