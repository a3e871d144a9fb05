from __future__ import annotations

import time

import pytest

from kb.app.bench.record import SuiteRecords
from kb.app.bench.rows import SuiteRow, from_values, key_of, to_values
from kb.app.bench.session import _left
from kb.app.bench.suites import SuiteOptions, task_folder
from kb.config import Home
from kb.database import open_engine
from kb.errors import StoreError
from search.outcome import Ratio

ABOUT = {"name": "own", "target": "zen5", "precision": "strict"}


@pytest.fixture
def records(tmp_path):
    return SuiteRecords(open_engine(Home(tmp_path / "home").make()))


def row(problem: str, **more: object) -> SuiteRow:
    return SuiteRow(**{"problem": problem, "key": "k1", "status": "unsolved", **more})


def test_the_same_question_finds_the_same_suite_and_another_one_begins_another(records):
    first = records.begin(ABOUT)
    assert records.begin(dict(reversed(ABOUT.items()))) == first == "own-1"
    assert records.begin({**ABOUT, "precision": "half"}) == "own-2"
    assert records.names() == ["own-1", "own-2"]


def test_a_row_comes_back_as_it_was_written(records):
    told = row(
        "p",
        status="solved",
        speedup={"eager": Ratio(ratio=2.0, low=1.9, high=2.1)},
        failures=(("wrong", "3 differ", 2),),
    )
    assert from_values(to_values(told)) == told
    suite = records.begin(ABOUT)
    records.ended(suite, told)
    assert records.suite(suite).rows == (told,)


def test_a_problem_that_broke_off_is_known_by_its_run_until_it_ends(records):
    suite = records.begin(ABOUT)
    assert records.state(suite, "p", "k1") == (None, None)
    records.begun(suite, "p", "k1", "p-1")
    assert records.state(suite, "p", "k1") == (None, "p-1")
    assert (records.suite(suite).open, records.suite(suite).rows) == (1, ())
    records.ended(suite, row("p", run="p-1"))
    assert records.state(suite, "p", "k1") == (row("p", run="p-1"), "p-1")
    assert records.suite(suite).open == 0


def test_a_row_of_other_content_is_not_the_problems(records):
    suite = records.begin(ABOUT)
    records.ended(suite, row("p"))
    assert records.state(suite, "p", "k2") == (None, None)
    records.ended(suite, row("p", key="k2", reason="new"))
    assert [one.key for one in records.suite(suite).rows] == ["k2"]


def test_rows_come_in_the_order_of_the_numbers_of_problems(records):
    suite = records.begin(ABOUT)
    for name in ("10_c", "2_b", "1_a"):
        records.ended(suite, row(name))
    assert [one.problem for one in records.suite(suite).rows] == ["1_a", "2_b", "10_c"]


def test_a_suite_that_is_not_there_is_one_line(records):
    records.begin(ABOUT)
    with pytest.raises(StoreError, match="no suite 'x': latest are own-1"):
        records.suite("x")


def test_the_same_problems_of_another_folder_are_another_suite(records):
    first = records.begin({**ABOUT, "folder": "/a/tasks"})
    assert records.begin({**ABOUT, "folder": "/b/tasks"}) == "own-2"
    assert records.begin({**ABOUT, "folder": "/a/tasks"}) == first == "own-1"


def test_a_suite_from_before_folders_were_on_record_goes_on_with_the_first_folder(records):
    old = records.begin(ABOUT)
    assert records.begin({**ABOUT, "folder": "/a/tasks"}) == old
    assert records.suite(old).about["folder"] == "/a/tasks"
    assert records.begin({**ABOUT, "folder": "/b/tasks"}) != old
    assert records.begin({**ABOUT, "folder": "/a/tasks"}) == old


def test_what_is_worked_on_again_goes_on_with_what_is_left_after_an_interruption(
    records, tmp_path, write_problem
):
    for name in ("a", "b"):
        write_problem(tmp_path / "tasks" / f"{name}.py")
    tasks = task_folder(tmp_path / "tasks", SuiteOptions()).tasks
    suite = records.begin(ABOUT)

    def left(again: bool = True, only: int = 2) -> list[str]:
        return [task.name for task in _left(records, suite, tasks[:only], again=again)]

    def end(name: str) -> None:
        task = next(one for one in tasks if one.name == name)
        records.ended(suite, row(name, key=key_of(task), at=time.time()))

    assert left(again=False) == ["a", "b"]
    end("a")
    end("b")
    assert left(again=False) == []
    assert left() == ["a", "b"]
    end("a")
    assert left() == ["b"]
    assert left(only=1) == ["a"], "other problems were asked for"
    records.end_again(suite, ["a"])
    assert left() == ["b"]
    end("b")
    records.end_again(suite, ["b", "a"])
    assert left() == ["a", "b"]
