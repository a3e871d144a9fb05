from __future__ import annotations

from dataclasses import replace

import pytest

from kb.app.device import unusual
from kb.errors import TaskError
from search.judged import plain_task, read_task, write_task
from search.task import load_task, override


@pytest.fixture
def task(tmp_path):
    def make(baselines: str, kernel: str = "x = 1\n"):
        (tmp_path / "reference.py").write_text("import torch\n")
        (tmp_path / "mine.py").write_text(kernel)
        (tmp_path / "task.yaml").write_text(f"reference: reference.py\nbaselines: {baselines}\n")
        return load_task(tmp_path / "task.yaml")

    return make


def test_kernels_are_read_from_the_folder_of_the_task_file(task):
    found = task("[max-autotune, mine.py]")
    assert found.settings.baselines == ("max-autotune", "mine.py")
    assert found.kernels == (("mine", "x = 1\n"),)
    assert override(found, candidates=3).kernels == found.kernels


@pytest.mark.parametrize(
    ("baselines", "what"),
    [
        ("[faster]", "max-autotune, reduce-overhead or the path"),
        ("[eager.py]", "another name than"),
        ("[mine.py, sub/mine.py]", "different names"),
        ("[gone.py]", "expected a readable kernel"),
        ("mine.py", "expected a list"),
    ],
)
def test_a_baseline_that_cannot_be_one_is_one_line(task, baselines, what):
    with pytest.raises(TaskError, match=what) as found:
        task(baselines)
    assert "\n" not in str(found.value)


def test_an_outcome_depends_on_how_long_and_beside_what_it_was_timed(task):
    none, one, other = task("[]"), task("[mine.py]"), task("[mine.py]", "x = 2\n")
    assert unusual(none) == ()
    without = replace(none, settings=none.settings.model_copy(update={"compiler": False}))
    shortly = replace(none, settings=none.settings.model_copy(update={"timing_seconds": 0.2}))
    chosen = (none, one, other, task("[max-autotune]"), without, shortly)
    assert len(set(map(unusual, chosen))) == 6
    assert none.identity == one.identity


def test_baselines_cross_to_a_judge_elsewhere(task, tmp_path):
    told = plain_task(task("[reduce-overhead, mine.py]"))
    assert read_task(write_task(told), told.reference) == told
