from __future__ import annotations

from machines import TWO_CORES
from scripted import REFERENCE

from kb.app.lessons.learning import Searched
from kb.config import Home
from kb.database import open_engine
from search.attempt import Diagnosis
from search.costs.graph import OperatorGraph, Work
from search.runs.storage import Storage
from search.task import load_task


def regime(tmp_path, precision: str) -> str:
    """Return where a run of a task with some precision measures."""
    (tmp_path / "ref.py").write_text(REFERENCE)
    task = tmp_path / "task.yaml"
    task.write_text(f"reference: ref.py\nprecision: {precision}\n")
    storage = Storage(open_engine(Home(tmp_path / "home").make()))
    return (
        Searched(
            storage=storage,
            record=storage.begin("ref", {}),
            task=load_task(task),
            target=TWO_CORES,
            language="cpp",
            graph=OperatorGraph(values=(), operators=(), outputs=(), single_output=True),
            work=Work(flops=1e6, bytes=1e6, traffic=1e6, families=()),
            baselines={"eager": 1e-3},
            diagnose=lambda _: Diagnosis(symptoms=(), lines=()),
        )
        .setting()
        .regime
    )


def test_what_is_measured_at_two_precisions_is_measured_in_two_places(tmp_path):
    """What half precision allows fails under a strict bound: one lesson of both would contradict itself."""
    strict = regime(tmp_path, "strict")
    assert regime(tmp_path, "half") == f"{strict}, precision half"
    assert "explicit" in regime(tmp_path, "{absolute: 1e-4, relative: 1e-4}")
