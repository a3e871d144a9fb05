from __future__ import annotations

import pytest

from kb.app.bench.session import file_name
from kb.app.bench.suites import SuiteOptions, chosen, kernelbench, task_folder
from kb.errors import TaskError


@pytest.fixture
def level(tmp_path, write_problem):
    for name in ("10_Tenth", "2_Second_conv", "1_First"):
        write_problem(tmp_path / "level1" / f"{name}.py")
    (tmp_path / "level1" / "helpers.py").write_text("x = 1\n")
    return tmp_path


def names(suite):
    return [task.name for task in suite.tasks]


def test_problems_come_in_the_order_of_their_numbers_and_other_files_are_none(level):
    expected = ["1_First", "2_Second_conv", "10_Tenth"]
    assert names(kernelbench(level, 1, SuiteOptions())) == expected
    assert names(kernelbench(level / "level1", 1, SuiteOptions())) == expected


def test_options_of_the_suite_stand_in_the_place_of_settings(level):
    options = SuiteOptions(precision="half", candidates=5, seconds=30, seed=7, author="recipes")
    settings = kernelbench(level, 1, options).tasks[0].settings
    assert settings.precision == "half"
    assert (settings.stop.candidates, settings.stop.minutes) == (5, 0.5)
    assert (settings.search.seed, settings.author) == (7, "recipes")


def test_an_option_out_of_its_range_is_one_line(level):
    with pytest.raises(TaskError, match=r"precision.*'exact'"):
        kernelbench(level, 1, SuiteOptions(precision="exact"))


@pytest.mark.parametrize(("candidates", "branches"), [(None, 3), (3, 1), (8, 2), (60, 3)])
def test_few_candidates_leave_one_to_every_idea(
    level, candidates: int | None, branches: int
) -> None:
    (task, *_) = kernelbench(level, 1, SuiteOptions(candidates=candidates)).tasks
    assert task.settings.search.ideas == 4
    assert task.settings.search.branches == branches


def test_a_level_that_is_not_there_is_one_line(level):
    with pytest.raises(TaskError, match="expected a folder level3"):
        kernelbench(level, 3, SuiteOptions())


def test_problems_are_chosen_by_number_name_and_pattern(level):
    suite = kernelbench(level, 1, SuiteOptions())
    assert names(chosen(suite, ["1"])) == ["1_First"]
    assert names(chosen(suite, ["10_tenth", "*conv*"])) == ["2_Second_conv", "10_Tenth"]
    with pytest.raises(TaskError, match="--only 3: expected"):
        chosen(suite, ["1", "3"])


def test_a_folder_of_tasks_has_its_task_files_and_the_programs_that_none_of_them_names(
    tmp_path, write_problem
):
    write_problem(tmp_path / "named.py")
    write_problem(tmp_path / "alone.py")
    (tmp_path / "helper.py").write_text("x = 1\n")
    (tmp_path / "one.yaml").write_text("reference: named.py\nname: one\nprecision: half\n")
    (tmp_path / "broken.yaml").write_text("reference: nowhere.py\n")
    suite = task_folder(tmp_path, SuiteOptions())
    assert names(suite) == ["one", "alone"]
    assert suite.tasks[0].settings.precision == "half"
    assert [name for name, _ in suite.unread] == ["broken.yaml"]


def test_two_tasks_of_one_name_are_refused(tmp_path, write_problem):
    write_problem(tmp_path / "a.py")
    (tmp_path / "one.yaml").write_text("reference: a.py\nname: same\n")
    (tmp_path / "two.yaml").write_text("reference: a.py\nname: same\n")
    with pytest.raises(TaskError, match="'same' twice"):
        task_folder(tmp_path, SuiteOptions())


def test_files_of_a_problem_stay_in_their_folder_whatever_its_name():
    assert file_name("1_Gate.v2", "k") == "1_Gate.v2"
    assert file_name("/tmp/x/fast norm", "k") == "tmp-x-fast-norm-k"
    assert file_name("..", "k") == "-k"
    assert len(file_name("x" * 300, "k")) < 110


def test_the_folder_of_another_level_is_refused(level):
    with pytest.raises(TaskError, match=r"expected the problems of level 2, found .* level 1"):
        kernelbench(level / "level1", 2, SuiteOptions())


def test_a_suite_knows_the_folder_of_its_problems(level):
    assert kernelbench(level, 1, SuiteOptions()).folder == (level / "level1").resolve()
    assert task_folder(level / "level1", SuiteOptions()).folder == (level / "level1").resolve()
    assert chosen(kernelbench(level, 1, SuiteOptions()), ["1"]).folder is not None
