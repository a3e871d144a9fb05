"""An operator's winner answers on its other samples, before the real judge."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest
import torch

from kb.app.bench.rows import SuiteRow, answered_row
from kb.app.bench.samples import AskedSample, OtherSamples, ordered, read_samples
from kb.app.device import make_judge
from kb.config import Home
from kb.errors import TaskError
from search.aten import kernels
from search.aten.programs import OperatorCall
from search.aten.samples import samples_of
from search.outcome import Ratio
from search.task import load_task

pytestmark = pytest.mark.timed

PLAN = {"library": [], "segments": {"rows:softmax": {"pattern": "rows", "recipe": "none", "knobs": {}}}}  # fmt: skip


@pytest.fixture
def asked(tmp_path):
    """Two samples of softmax, an empty one, and what is made of them, as their file has them."""
    shapes = ((5, 16), (3, 7), (0, 4))
    calls = [
        OperatorCall(name="torch.softmax", arguments=(torch.randn(shape), 1), options={})
        for shape in shapes
    ]
    path = tmp_path / "softmax.samples.json"
    path.write_text(json.dumps([asdict(one) for one in samples_of(calls, "softmax.")]))
    return read_samples(path)


@pytest.fixture
def samples(tmp_path, write_problem):
    task = load_task(write_problem(tmp_path / "softmax.py", "return torch.softmax(x, 1)"))
    home = Home(tmp_path / "home").make()
    return OtherSamples(
        home=home,
        task=task,
        plan=PLAN,
        folder=tmp_path / "kernels",
        kernels=2,
        begins=lambda _sample: None,
        ends=lambda _answer: None,
    )


@pytest.mark.slow
def test_each_sample_is_answered_by_a_kernel_that_is_judged_or_by_the_library(asked, samples):
    begun: list[str] = []
    samples = replace(samples, begins=begun.append)
    found = {one.sample: one for one in samples.answers(asked)}
    assert {name: one.by for name, one in found.items()} == {
        "sample 0": "own",
        "sample 1": "library",
        "sample 2": "library",
        "other strides": "own",
    }, begun  # softmax over dimension 1 takes no tensor without dimensions: that one is left out
    assert begun == ["other strides", "no dimensions", "sample 0"]
    assert found["sample 2"].reason == "an input is empty"
    assert found["sample 1"].reason == "no kernel was asked for"
    assert "load_cpp" in (samples.folder / "sample-0.py").read_text()


@pytest.mark.slow
def test_a_kernel_that_is_wrong_on_a_sample_is_told(asked, samples, monkeypatch):
    wrong = "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x0):\n        return x0 + 1\n"
    monkeypatch.setattr(kernels, "write_kernel", lambda *_: wrong)
    (answer,) = samples.answers(asked[:1])
    assert answer.by == "wrong"
    assert "differs from the reference" in answer.reason


@pytest.mark.slow
def test_a_kernel_that_is_refused_is_judged_again_for_longer(asked, samples, monkeypatch):
    program = """import torch


class ModelNew(torch.nn.Module):
    def forward(self, x0):
        y = torch.softmax(x0, 1)
        x0.zero_()
        return y
"""
    seconds: list[float] = []

    def counted(*args, limits, **options):
        seconds.append(limits.timing_seconds)
        return make_judge(*args, limits=limits, **options)

    monkeypatch.setattr(kernels, "write_kernel", lambda *_: program)
    monkeypatch.setattr("kb.app.bench.samples.make_judge", counted)
    (answer,) = samples.answers(asked[:1])
    assert (answer.by, seconds) == ("wrong", [0.05, 1.0])
    assert "refused" in answer.reason


def test_a_winner_without_a_plan_leaves_every_sample_to_the_library(asked, samples):
    found = replace(samples, plan={}).answers(asked)
    assert {one.by for one in found} == {"library"}


def test_kernels_are_for_awkward_samples_and_some_of_each_size():
    sizes = [4, 400, 40, 7, 70]
    given = [
        AskedSample(name=f"sample {at}", program="x", reason="", elements=size, awkward=False)
        for at, size in enumerate(sizes)
    ]
    odd = AskedSample(name="other strides", program="x", reason="", elements=9, awkward=True)
    none = AskedSample(name="sample 9", program="", reason="why", elements=999, awkward=False)
    names = [one.name for one in ordered([*given, odd, none], 3)]
    assert names == ["other strides", "sample 1", "sample 2", "sample 4", "sample 3", "sample 0"]
    assert len(ordered([odd, none], 3)) == 1


def test_another_file_is_one_line(tmp_path):
    (tmp_path / "x.json").write_text('[{"name": 1}]')
    with pytest.raises(TaskError, match="expected samples of an operator"):
        read_samples(tmp_path / "x.json")


def test_a_winner_that_is_wrong_on_a_sample_is_not_solved():
    ratio = Ratio(ratio=2.0, low=1.9, high=2.1, confidence=0.95)
    row = SuiteRow(problem="p", key="k", status="solved", speedup={"eager": ratio})
    right = answered_row(row, [("sample 0", "own", ""), ("sample 1", "library", "empty")])
    assert (right.status, right.samples) == ("solved", {"own": 1, "library": 1, "wrong": 0})
    wrong = answered_row(row, [("sample 0", "own", ""), ("sample 1", "wrong", "incorrect: all")])
    assert (wrong.status, wrong.speedup) == ("unsolved", {})
    assert "not on 1 of 2 others: sample 1: incorrect: all" in wrong.reason
    assert answered_row(row, []) == row
