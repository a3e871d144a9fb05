from __future__ import annotations

import pytest

from kb.errors import TaskError
from search.reference import load_problem
from search.task import load_task
from search.workloads import chief, task_of, with_sizes, workload_facts

REFERENCE = """
import torch

ROWS, OTHER = 4, 5
N = (
    16
)
M = N * 2; K = 3  # é stays

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)

def get_inputs():
    return [torch.randn(M, K)]

def few():
    return [torch.randn(2, K)]
"""


@pytest.fixture
def task(tmp_path):
    def make(workloads: str):
        (tmp_path / "reference.py").write_text(REFERENCE)
        (tmp_path / "task.yaml").write_text(f"reference: reference.py\nworkloads: {workloads}\n")
        return load_task(tmp_path / "task.yaml")

    return make


def test_sizes_replace_constants_where_they_stand_so_that_what_follows_from_them_follows():
    source = with_sizes(REFERENCE, {"N": 100, "K": 7}, "here")
    assert "N = (\n    100\n)\n" in source
    assert "M = N * 2; K = 7  # é stays" in source
    names: dict[str, object] = {}
    exec(source, names)
    assert (names["M"], names["K"]) == (200, 7)


def test_a_workload_has_its_own_inputs(task):
    found = task("[{name: a, sizes: {N: 3}}, {name: b, inputs: few, weight: 2}]")
    one, other = (load_problem(task_of(found, load)) for load in found.settings.workloads)
    assert one.inputs[0].shape == (6, 3)
    assert other.inputs[0].shape == (2, 3)
    assert len({found.identity, one.task.identity, other.task.identity}) == 3
    assert chief(found.settings.workloads).name == "b"


@pytest.mark.parametrize(
    ("workloads", "what"),
    [
        ("[{name: a, sizes: {GONE: 3}}]", "assigns at its top, found 'GONE'.*N, M, K"),
        ("[{name: a, inputs: gone}]", r"expected a function gone\(\).*get_inputs, few"),
    ],
)
def test_what_the_reference_does_not_have_is_one_line(task, workloads, what):
    found = task(workloads)
    with pytest.raises(TaskError, match=what) as error:
        task_of(found, found.settings.workloads[0])
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("workloads", "what"),
    [
        ("[{name: a}, {name: a}]", "different names"),
        ("[{name: a, held_out: true}]", "not held out"),
        ("[{name: a, weight: 0}]", "weight"),
        ("[{name: a, inputs: 'import os'}]", "name of a function"),
        ("[{name: a, shape: 3}]", "known here are name, weight, sizes, inputs, held_out"),
    ],
)
def test_a_workload_that_cannot_be_read_is_one_line(task, workloads, what):
    with pytest.raises(TaskError, match=what):
        task(workloads)


def test_prompts_tell_of_workloads_but_those_held_out(task):
    found = task("[{name: a, sizes: {N: 3}}, {name: secret, sizes: {N: 77}, held_out: true}]")
    (line,) = workload_facts(found.settings.workloads)
    assert "N = 3" in line
    assert "77" not in line
    assert "secret" not in line
    assert workload_facts(()) == ()
