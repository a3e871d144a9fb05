"""A suite of small problems, worked on by the real search and judge."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.timed

PROBLEM = """import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        {body}


def get_inputs():
    return [torch.randn(256, 1024)]


def get_init_inputs():
    return []
"""
BUDGET = ("--candidates", 1, "--seconds", 600, "--author", "recipes")


def write(folder: Path, name: str, body: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.py").write_text(PROBLEM.format(body=body))


@pytest.fixture
def shell(make_shell):
    made = make_shell()
    write(made.folder / "level1", "1_Gate", "return torch.sigmoid(x) * x")
    write(made.folder / "level1", "2_Raises", "raise ValueError('not today')")
    return made


def time_briefly(shell) -> None:
    """Write a task file for the first problem, which `kb bench tasks` reads."""
    task = {
        "reference": "1_Gate.py",
        "final_seconds": 0.3,
        "timing_seconds": 0.2,
        "compiler": False,
    }
    (shell.folder / "level1" / "gate.yaml").write_text(json.dumps(task))


@pytest.mark.slow
def test_a_problem_of_kernelbench_that_cannot_be_judged_is_a_row_with_its_reason(shell):
    done = shell("bench", "kernelbench", ".", "--only", "2", *BUDGET, "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    (row,) = told["rows"]
    assert (row["problem"], row["status"]) == ("2_Raises", "not_judged")
    assert row["precision"] == "strict"
    assert "not today" in row["reason"]


@pytest.mark.slow
def test_a_suite_ends_with_a_row_a_problem_and_a_second_call_has_nothing_to_do(shell):
    time_briefly(shell)
    command = ("bench", "tasks", "level1", *BUDGET, "--precision", "strict", "--json")
    done = shell(*command)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    rows = {row["problem"]: row for row in told["rows"]}
    assert rows["2_Raises"]["status"] == "not_judged"
    assert "not today" in rows["2_Raises"]["reason"]
    first = rows["1_Gate"]
    assert first["status"] in ("solved", "unsolved"), first
    assert first["candidates"] >= 1
    assert first["precision"] == "strict"
    assert set(first["baselines"]) == {"eager"}
    if first["status"] == "solved":
        eager = first["speedup"]["eager"]
        assert eager["low"] <= eager["ratio"] <= eager["high"]
    assert told["figures"]["problems"] == 2
    assert told["figures"]["judged"] == 1

    again = shell(*command)
    assert "0 problems to work on, 2 have a result" in again.stderr
    assert json.loads(again.stdout)["rows"] == told["rows"]
    assert len(json.loads(shell("runs", "--json").stdout)) == 1

    name = told["suite"]
    lines = shell("bench", "show", name, "--lines").stdout.splitlines()
    assert [json.loads(line)["problem"] for line in lines] == ["1_Gate", "2_Raises"]
    assert f"{name} on {first['target']}: precision strict" in shell("bench", "show", name).stdout
    assert [one["suite"] for one in json.loads(shell("bench", "list", "--json").stdout)] == [name]

    write(shell.folder / "level1", "2_Raises", "raise ValueError('changed')")
    changed = shell(*command)
    assert "1 problems to work on, 1 have a result" in changed.stderr
    assert "changed" in json.loads(changed.stdout)["rows"][1]["reason"]


@pytest.mark.slow
def test_ctrl_c_keeps_the_run_and_the_same_command_goes_on_with_it(shell):
    time_briefly(shell)
    command = ("bench", "tasks", "level1", "--only", "1", *BUDGET)
    process = shell.start(*command)
    log = shell.home / "suites" / "level1-1" / "1_Gate.log"
    try:
        # From then on the suite knows the name of the run.
        while not (log.is_file() and "the sandbox" in log.read_text()):
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 130, told
    assert "the same command goes on" in told
    done = shell(*command, "--json")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["rows"]
    (run,) = json.loads(shell("runs", "--json").stdout)
    assert (row["run"], run["status"]) == (run["run"], "finished")


def test_a_folder_without_problems_is_one_line(bare_shell):
    done = bare_shell("bench", "kernelbench", ".")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "expected a folder level1" in done.stderr


@pytest.mark.slow
def test_a_task_of_another_format_is_imported_and_a_broken_one_is_one_line(make_shell):
    shell = make_shell()
    folder = shell.folder / "square"
    folder.mkdir()
    (folder / "reference.py").write_text(
        "import torch\n\n\ndef generate_input(n, seed):\n"
        "    return (torch.randn(n, generator=torch.Generator().manual_seed(seed)),)\n\n\n"
        "def ref_kernel(data):\n    return data[0] * data[0]\n"
    )
    (folder / "task.yml").write_text(
        "lang: py\nfiles: [{name: reference.py, source: reference.py}]\n"
        "benchmarks: [{n: 4096, seed: 1}]\n"
    )
    done = shell("bench", "import", "square", "-o", "tasks", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["workloads"] == 1
    again = shell("bench", "import", "square", "-o", "tasks")
    assert (again.returncode, again.stderr.count("\n")) == (2, 1)
    assert "is there already" in again.stderr
    (folder / "task.yml").write_text("lang: py")
    broken = shell("bench", "import", "square/task.yml")
    assert (broken.returncode, broken.stderr.count("\n")) == (2, 1)
    assert "files" in broken.stderr
