"""The tables of reference tasks: they are read, checked, and every task runs as its name says."""

from __future__ import annotations

from pathlib import Path

import pytest

from kb.errors import RecordError
from search.measuring.tables import KINDS, load_tables

TABLE = """
references:
  double: {operator: elementwise, sizes: [rows, cols], inputs: ["torch.randn(rows, cols)"], forward: return a * 2}
cpu:
  - small: %s
"""


@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_every_table_that_a_device_has_covers_every_kind_of_shape(device: str) -> None:
    for pattern, shapes in load_tables(device).items():  # type: ignore[arg-type]
        if shapes:
            assert {shape.kind for shape in shapes} == set(KINDS), pattern


def test_a_task_is_a_reference_with_its_sizes(tmp_path: Path) -> None:
    (tmp_path / "pointwise.yaml").write_text(TABLE % "double 3x5")
    ((shape,),) = load_tables("cpu", tmp_path).values()
    task = shape.task(tmp_path)
    assert task.settings.precision == "strict"
    from search.reference import load_problem

    problem = load_problem(task)
    assert tuple(problem.inputs[0].shape) == (3, 5)
    assert problem.run(*problem.inputs)[0].equal(problem.inputs[0] * 2)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("double 3", "expected 2 sizes"),
        ("triple 3x5", "expected a reference of this file"),
        ("double", "expected a reference of this file"),
    ],
)
def test_a_task_that_does_not_fit_its_reference_is_told(
    tmp_path: Path, name: str, told: str
) -> None:
    (tmp_path / "pointwise.yaml").write_text(TABLE % name)
    with pytest.raises(RecordError, match=told):
        load_tables("cpu", tmp_path)


def test_a_task_stands_once_in_a_table(tmp_path: Path) -> None:
    (tmp_path / "pointwise.yaml").write_text(TABLE % "double 3x5" + "  - odd: double 3x5\n")
    with pytest.raises(RecordError, match="twice"):
        load_tables("cpu", tmp_path)


def test_an_unknown_key_is_told(tmp_path: Path) -> None:
    (tmp_path / "pointwise.yaml").write_text(TABLE % "double 3x5" + "tpu: []\n")
    with pytest.raises(RecordError, match="tpu"):
        load_tables("cpu", tmp_path)
