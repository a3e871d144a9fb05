from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from kb.app.bench.imports import import_task
from kb.errors import TaskError
from search.formats.choice import read_foreign
from search.judging.dryrun.small_shapes import variants
from search.reference import load_problem
from search.task import load_task
from search.workloads import task_of, with_sizes


def test_a_task_becomes_a_reference_whose_workloads_are_its_benchmarks_and_tests(
    write_gpumode, tmp_path
):
    written = import_task(write_gpumode(), tmp_path / "out", 8)
    task = load_task(written.task)
    assert [(one.name, one.held_out) for one in task.settings.workloads] == [
        ("benchmark 0: rows=32, scaled=False", False),
        ("benchmark 1: rows=64, scaled=True", False),
        ("test 0: rows=8, scaled=False", True),
    ]
    assert "nowhere" not in task.source  # what neither function needs is left out
    for workload, rows in zip(task.settings.workloads, (32, 64, 8), strict=True):
        problem = load_problem(task_of(task, workload))
        x, weight = problem.inputs
        assert x.shape == (rows, 64)
        assert torch.equal(problem.model(x, weight), 2 * x * weight)
        assert not torch.equal(x, problem.draw(1)[0])  # seeds are the judge's


def test_a_dry_run_finds_smaller_sizes_of_a_task(write_gpumode, tmp_path):
    task = load_task(import_task(write_gpumode(), tmp_path / "out", 8).task)
    large = with_sizes(task.source, {"case_rows": 4096}, "here")
    found = next(variants(load_problem(replace(task, source=large))))
    assert found.problem.inputs[0].shape[0] < 4096


def test_where_the_last_benchmark_ranks_the_others_are_held_out(write_gpumode, tmp_path):
    found = read_foreign(write_gpumode(ranking_by="last").parent, 8)
    told = [(one["name"][:11], "held_out" in one) for one in found.settings["workloads"]]
    assert told == [("benchmark 1", False), ("benchmark 0", True), ("test 0: row", True)]


def test_few_workloads_are_some_of_all_and_that_is_said(write_gpumode):
    found = read_foreign(write_gpumode(), 2)
    assert len(found.settings["workloads"]) == 2
    assert any("2 of 3 benchmarks and tests" in note for note in found.notes)


def test_an_input_that_is_a_tensor_alone_is_one_argument(write_gpumode, tmp_path):
    reference = (
        "import torch\nfrom task import input_t\n\n\ndef generate_input(rows, scaled, seed) -> input_t:\n"
        "    return torch.randn(rows, 8)\n\n\ndef ref_kernel(data):\n    return data.exp()\n"
    )
    types = 'import typing, torch\ninput_t = typing.TypeVar("input_t", bound=torch.Tensor)\n'
    path = write_gpumode({"reference.py": reference, "task.py": types})
    problem = load_problem(load_task(import_task(path, tmp_path / "out", 1).task))
    assert torch.equal(problem.model(*problem.inputs), problem.inputs[0].exp())


def test_what_changes_a_name_of_the_reference_is_kept(write_gpumode, tmp_path):
    utils = "def matcher(reference):\n    return None\n\n\ndef doubled(value):\n    return value * FACTOR\n\n\n"
    path = write_gpumode({"../utils.py": utils + "FACTOR = 2\nFACTOR += 3\n"})
    made = import_task(path, tmp_path / "out", 1)
    problem = load_problem(load_task(made.task))
    x, weight = problem.inputs
    assert torch.equal(problem.model(x, weight), x * 5 * weight)


@pytest.mark.parametrize(
    "value", ["print(TypeVar('t', bound=tuple[int]))", "(x, f(bound=tuple[x]))"]
)
def test_an_input_type_that_is_no_type_is_not_read(write_gpumode, value):
    write = {"task.py": f"input_t = {value}\n"}
    assert "x0, x1" in read_foreign(write_gpumode(write), 1).program


@pytest.mark.parametrize(
    ("keys", "files", "line"),
    [
        ({"lang": "cu"}, {}, "expected lang: py, found cu"),
        ({"multi_gpu": True}, {}, "found multi_gpu"),
        ({"tests": [], "benchmarks": []}, {}, "expected tests or benchmarks"),
        ({"tests": [{"rows": [1]}]}, {}, "tests.0.rows"),
        ({"tests": [{"rows=1": 1}]}, {}, "expected arguments of generate_input"),
        ({"files": "x"}, {}, "files"),
        ({"files": [{"name": "a.py", "source": "../../../../etc/passwd"}]}, {}, "one folder up"),
        ({}, {"reference.py": "def f(:\n"}, "reference.py is not Python"),
        ({}, {"reference.py": "x = 1\n"}, "expected a function generate_input"),
        ({}, {"reference.py": f"x = {'+'.join('1' * 2500)}\n"}, "nested too deeply|not Python|expected"),
        ({}, {"reference.py": "import utils\n"}, "expected 'from utils import"),
        (
            {},
            {"task.py": "input_t = output_t = int\n", "reference.py": "from task import input_t\n"
             "def generate_input(rows, scaled, seed):\n    x = 1\n    return x\n"
             "def ref_kernel(data):\n    return data\n"},
            "say how many inputs",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_one_line(write_gpumode, keys, files, line):
    with pytest.raises(TaskError, match=line) as told:
        read_foreign(write_gpumode(files, **keys), 8)
    assert "\n" not in str(told.value)


def test_a_file_that_is_no_task_is_one_line(tmp_path):
    for name, text in (
        ("a.yml", "x: [1"),
        ("b.yml", "- 1"),
        ("c.txt", ""),
        ("d.yml", "\x00"),
        ("e.yml", "a: 2026-99-99"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(TaskError):
            read_foreign(tmp_path / name, 8)
    with pytest.raises(TaskError, match="check the path"):
        read_foreign(tmp_path / "absent.yml", 8)
