from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from kb.app.bench.imports import import_task
from kb.errors import TaskError
from search.formats.choice import read_foreign
from search.reference import load_problem
from search.task import load_task
from search.workloads import task_of

RUN = """import torch


def run(x, weight, scale):
    return (x * weight * scale).to(torch.bfloat16), x.sum(-1)
"""
DEFINITION: dict[str, Any] = {
    "name": "weighted_h64",
    "op_type": "norm",
    "axes": {
        "rows": {"type": "var"},
        "hidden": {"type": "const", "value": 64, "description": "of a row"},
        "twice": {"type": "expr", "expression": "rows * 2 ** 1"},
    },
    "inputs": {
        "x": {"shape": ["twice", "hidden"], "dtype": "float32"},
        "weight": {"shape": ["hidden"], "dtype": "float32"},
        "scale": {"shape": None, "dtype": "float32"},
    },
    "outputs": {
        "y": {"shape": ["twice", "hidden"], "dtype": "bfloat16"},
        "sums": {"shape": ["twice"], "dtype": "float32"},
    },
    "reference": RUN,
}
DRAWN = {"x": {"type": "random"}, "weight": {"type": "random"}, "scale": {"type": "scalar", "value": 0.5}}  # fmt: skip
CUSTOM = """import torch


def get_inputs(axes_and_scalars, device):
    n = axes_and_scalars["rows"]
    return {"places": torch.randint(0, n, (n,), device=device), "x": torch.randn(n, device=device)}


def run(x, places):
    return x[places]
"""


def workload(rows: int, **more: Any) -> dict[str, Any]:
    return {"uuid": f"u{rows}", "axes": {"rows": rows}, "inputs": DRAWN, **more}


def write(folder: Path, lines: list[Any], **changed: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "definition.json").write_text(json.dumps({**DEFINITION, **changed}))
    (folder / "workload.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    return folder / "definition.json"


def test_a_definition_becomes_a_reference_with_the_sizes_of_its_workloads(tmp_path):
    lines = [
        workload(4),
        {"definition": "weighted_h64", "workload": workload(16), "solution": None},
    ]
    written = import_task(write(tmp_path / "in", lines), tmp_path / "out", 8)
    task = load_task(written.task)
    assert [one.name for one in task.settings.workloads] == ["u16: rows=16", "u4: rows=4"]
    for one, rows in zip(task.settings.workloads, (32, 8), strict=True):
        problem = load_problem(task_of(task, one))
        x, weight, scale = problem.inputs
        assert (x.shape, weight.shape, scale) == ((rows, 64), (64,), 0.5)
        y, sums = problem.model(x, weight, scale)
        assert torch.equal(y, (x * weight * scale).bfloat16())
        assert torch.equal(sums, x.sum(-1))


def test_a_reference_that_makes_its_inputs_is_asked_for_them(tmp_path):
    tensor = {"shape": ["rows"], "dtype": "float32"}
    path = write(
        tmp_path / "in",
        [workload(6, inputs={"x": {"type": "custom"}, "places": {"type": "custom"}})],
        inputs={"x": tensor, "places": {**tensor, "dtype": "int64"}},
        outputs={"y": tensor},
        reference=CUSTOM,
        custom_inputs_entrypoint="get_inputs",
    )
    problem = load_problem(load_task(import_task(path, tmp_path / "out", 8).task))
    x, places = problem.inputs
    assert torch.equal(problem.model(x, places), x[places])


def test_workloads_that_cannot_be_drawn_are_left_out_and_named(tmp_path):
    kept = {**DRAWN, "x": {"type": "safetensors", "path": "x.safetensors", "tensor_key": "x"}}
    lines = [workload(4), workload(5, inputs=kept), workload(6, axes={}), workload(0)]
    notes = read_foreign(write(tmp_path, lines).parent, 8).notes
    told = [note for note in notes if "left out" in note]
    assert [note.split(": ", 1)[0] for note in told] == [
        f"workload u{rows} is left out" for rows in (5, 6, 0)
    ]
    assert "safetensors" in told[0]
    assert "rows is not given" in told[1]
    assert "is empty" in told[2]


def test_workloads_whose_names_begin_alike_are_told_apart(tmp_path):
    scaled = [{**DRAWN, "scale": {"type": "scalar", "value": value}} for value in (0.5, 2.0)]
    lines = [workload(4, uuid=f"workload-{at}", inputs=one) for at, one in enumerate(scaled)]
    task = load_task(import_task(write(tmp_path, [*lines, workload(5)]), tmp_path / "out", 8).task)
    names = [one.name for one in task.settings.workloads]
    assert names == ["u5: rows=5", "2 workload: rows=4", "3 workload: rows=4"]


def test_what_a_note_quotes_becomes_no_line_of_the_task_file(tmp_path):
    sly = workload(5, uuid="u\nprecision: kernelbench\x85#", axes={})
    made = import_task(write(tmp_path, [workload(4), sly]), tmp_path / "out", 8)
    assert load_task(made.task).settings.precision == "strict"
    assert [note for note in made.notes if "precision: kernelbench" in note and "\n" not in note]


def test_the_folders_of_a_data_set_are_known(tmp_path):
    path = write(tmp_path / "definitions" / "norm", [workload(4)])
    (tmp_path / "workloads" / "norm").mkdir(parents=True)
    moved = path.rename(path.with_name("weighted_h64.json"))
    (path.parent / "workload.jsonl").rename(tmp_path / "workloads" / "norm" / "weighted_h64.jsonl")
    assert len(read_foreign(moved, 8).settings["workloads"]) == 1


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"inputs": {"x": {"shape": ["rows"], "dtype": "float8_e4m3fn"}}}, "found float8"),
        ({"inputs": {"x; y": {"shape": ["rows"], "dtype": "float32"}}}, "names as in Python"),
        ({"inputs": {"x": {"shape": ["nowhere"], "dtype": "float32"}}}, "found 'nowhere'"),
        ({"axes": {"rows": {"type": "other"}}}, "axes.rows"),
        ({"axes": {**DEFINITION["axes"], "a = 1": {"type": "var"}}}, "names as in Python"),
        ({"reference": "def run(:"}, "reference: not Python"),
        ({"reference": "x = 1"}, r"expected a function run\(\)"),
        ({"axes": {**DEFINITION["axes"], "twice": {"type": "expr", "expression": "twice"}}}, "is not given"),
        ({"axes": {**DEFINITION["axes"], "twice": {"type": "expr", "expression": "open('x')"}}}, "is not read"),
        ({"axes": {**DEFINITION["axes"], "twice": {"type": "expr", "expression": "rows // 0"}}}, "its axes"),
        ({"axes": {**DEFINITION["axes"], "twice": {"type": "expr", "expression": "9 ** 9 ** 9"}}}, "too large"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_one_line(tmp_path, changed, line):
    with pytest.raises(TaskError, match=line) as told:
        read_foreign(write(tmp_path, [workload(4)], **changed), 8)
    assert "\n" not in str(told.value)


def test_half_a_character_or_a_deep_program_is_one_line(tmp_path):
    deep = f"def run(x, weight, scale):\n    return {'+'.join('x' * 2500)}\n"
    with pytest.raises(TaskError, match=r"nested too deeply|not Python"):
        read_foreign(write(tmp_path / "deep", [workload(4)], reference=deep), 8)
    half = write(tmp_path / "half", [workload(4, uuid="\ud800")])
    with pytest.raises(TaskError, match="uuid"):
        read_foreign(half, 8)


def test_a_broken_workload_or_none_is_one_line(tmp_path):
    path = write(tmp_path, [workload(4)])
    (tmp_path / "workload.jsonl").write_text("{")
    with pytest.raises(TaskError, match="line 1: not JSON"):
        read_foreign(path, 8)
    (tmp_path / "workload.jsonl").unlink()
    with pytest.raises(TaskError, match="expected its workloads in"):
        read_foreign(path, 8)
    path.write_text("[" * 100_000)
    with pytest.raises(TaskError, match="not JSON"):
        read_foreign(path, 8)
