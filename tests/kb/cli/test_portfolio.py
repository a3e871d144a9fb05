"""`kb evolve --budget` as a user types it: real parts throughout."""

from __future__ import annotations

import json

import pytest

TASK = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return {body}

def get_inputs():
    return [torch.randn(64, 500)]
"""
BODIES = {
    "rows": "torch.softmax(torch.sigmoid(x) * x, -1)",
    "portfolio": "torch.relu(x * 2 + 1) * x",
}


@pytest.fixture
def shell(make_shell):
    return make_shell()


@pytest.fixture
def tasks(shell):
    folder = shell.folder / "tasks"
    folder.mkdir()
    for name, body in BODIES.items():
        (folder / f"{name}.py").write_text(TASK.format(body=body))
        (folder / f"{name}.yaml").write_text(
            f"reference: {name}.py\nauthor: recipes\nfinal_seconds: 0.2\ntiming_seconds: 0.2\ncompiler: false\n"
            "search: {ideas: 1, branches: 1, knob_trials: 0}\nstop: {minutes: null}\n"
        )
    return folder


@pytest.mark.slow
def test_a_budget_is_spent_over_all_tasks_and_each_ends_with_its_best_measured_again(shell, tasks):
    done = shell("evolve", tasks, "--budget", "3", "candidates", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["budget"] == {"amount": 3.0, "unit": "candidates"}
    assert {row["task"] for row in report["tasks"]} == set(BODIES)
    assert all(row["rounds"] >= 1 for row in report["tasks"])
    assert report["spent"] == sum(row["cost"] for row in report["tasks"]) >= 3
    runs = json.loads(shell("runs", "--json").stdout)
    assert {run["status"] for run in runs} == {"finished"}
    assert {run["run"] for run in runs} == {"rows-1", "portfolio-task-1"}, "none is the portfolio's"
    again = shell("resume", report["portfolio"], "--json")
    assert json.loads(again.stdout) == report, "a portfolio whose budget is spent is only reported"


@pytest.mark.slow
def test_several_tasks_without_a_budget_are_refused(bare_shell):
    done = bare_shell("evolve", "a.py", "b.py")
    assert done.returncode == 2
    assert "add for example --budget" in done.stderr
