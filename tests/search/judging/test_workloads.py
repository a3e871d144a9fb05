"""One verdict over several workloads, from the real judge and from given outcomes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from machines import BOUNDLESS

from kb.app.device import JudgingDevice, make_judge
from search.judging.limits import Limits
from search.judging.workloads import WorkloadJudge, WorkloadSeat, verdict
from search.outcome import Passed, Ratio, Wrong, from_json, to_json
from search.reference import load_problem
from search.task import load_task
from search.workloads import WorkloadSettings

pytestmark = pytest.mark.timed

REFERENCE = """
import torch

ROWS = 8
COLUMNS = 65536

class Model(torch.nn.Module):
    def forward(self, x):
        y = x
        for _ in range(8):
            y = torch.softmax(x + 0.0 * y, dim=-1)
        return y

def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]
"""
TASK = """
reference: reference.py
workloads:
  - {name: few rows, sizes: {ROWS: 8}}
  - {name: many rows, sizes: {ROWS: 512, COLUMNS: 1024}}
  - {name: unseen, sizes: {ROWS: 40, COLUMNS: 800}, held_out: true}
"""
# The reference does its work eight times, so that once is faster on any machine; on many rows this does it 25 times.
SPECIALIST = """
import torch

class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.softmax(x, dim=-1)
        if x.shape[0] > 100:
            for _ in range(24):
                y = torch.softmax(x + 0.0 * y, dim=-1)
        return y
"""
GENERALIST = """
import torch

class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1)
"""
WRONG_UNSEEN = GENERALIST.replace(
    "return torch.softmax(x, dim=-1)",
    "return torch.softmax(x, dim=-1) * (1.01 if x.shape[0] == 40 else 1.0)",
)
LIMITS = Limits(
    call_seconds=3.0, timing_seconds=0.1, thorough_seconds=0.2, compile=False, memory=1 << 30
)


@pytest.fixture(scope="module")
def judge(tmp_path_factory):
    folder = tmp_path_factory.mktemp("workloads")
    (folder / "reference.py").write_text(REFERENCE)
    (folder / "task.yaml").write_text(TASK)
    task = load_task(folder / "task.yaml")
    problem = load_problem(task)
    place = JudgingDevice(target=BOUNDLESS, how="cpu")
    made = make_judge(place, task, problem, folder=folder / "builds", limits=LIMITS)
    yield made
    made.close()


@pytest.mark.slow
def test_what_is_best_for_one_shape_loses_the_verdict(judge):
    assert isinstance(judge, WorkloadJudge)
    for _ in range(3):  # a machine that stalls for a second is no verdict on either
        one, every = judge.judge(SPECIALIST), judge.judge(GENERALIST)
        assert one.kind == every.kind == "passed", (one, every)
        few, many = (one.workloads[name]["eager"] for name in ("few rows", "many rows"))
        if every.merit > one.merit and few.ratio > many.high and many.high < 1:
            break
    assert few.ratio > many.high
    assert many.high < 1
    # No mean with the fast shape hides the slow one.
    assert one.speedup["eager"] == many
    assert every.merit > one.merit


@pytest.mark.slow
def test_a_workload_that_is_held_out_is_judged_where_a_candidate_is_measured_for_the_report(judge):
    first = judge.judge(WRONG_UNSEEN)
    assert first.kind == "passed", first
    assert set(first.workloads) == {"few rows", "many rows"}
    last = judge.judge(WRONG_UNSEEN, thorough=True)
    assert last.kind == "wrong"
    assert last.reason.startswith("workload unseen: ")
    # Seen once: a machine that stood still for a second had an honest candidate refused.
    measured = [judge.judge(GENERALIST, thorough=True)]
    if measured[0].kind == "refused":
        measured.append(judge.judge(GENERALIST, thorough=True))
    assert measured[-1].kind == "passed", measured
    assert set(measured[-1].workloads) == {"few rows", "many rows", "unseen"}


def test_the_baselines_are_the_mean_of_the_workloads_that_count(judge):
    told = judge.prepare()
    each = [seat.judge.prepare().baselines["eager"] for seat in judge._seats[:2]]
    assert told.baselines["eager"] == pytest.approx((each[0] * each[1]) ** 0.5)


def ratio(value: float) -> Ratio:
    return Ratio(ratio=value, low=value * 0.9, high=value * 1.1)


def passed(value: float, **more: object) -> Passed:
    told = {"seconds": 1.0, "samples": 3, "max_error": 0.0, "allowed_error": 1.0}
    return Passed(**{**told, "speedup": {"eager": ratio(value)}, **more})


def load(name: str, weight: float = 1.0, **more: object) -> WorkloadSettings:
    return WorkloadSettings(name=name, weight=weight, **more)


def judged(*found: tuple[WorkloadSettings, Passed], allow_slower: bool = False) -> Passed:
    return verdict(found, found[0][0], allow_slower=allow_slower)


def test_the_verdict_is_the_geometric_mean_by_weight():
    told = judged((load("a", 3.0), passed(2.0)), (load("b", 1.0), passed(16.0)))
    assert told.speedup["eager"].ratio == pytest.approx(2.0**0.75 * 16.0**0.25)
    assert told.speedup["eager"].low == pytest.approx(0.9 * told.speedup["eager"].ratio)
    assert told.workloads["b"]["eager"] == ratio(16.0)


def test_a_slower_workload_is_the_verdict_unless_slower_ones_are_allowed():
    pair = ((load("a"), passed(8.0)), (load("b"), passed(0.5)))
    assert judged(*pair).speedup["eager"] == ratio(0.5)
    assert judged(*pair, allow_slower=True).speedup["eager"].ratio == pytest.approx(2.0)


def test_a_workload_that_may_as_well_be_even_is_not_slower():
    pair = ((load("a"), passed(4.0)), (load("b"), passed(0.95)))
    assert judged(*pair).speedup["eager"].ratio == pytest.approx((4 * 0.95) ** 0.5)


def test_a_wide_interval_does_not_hide_another_workload_that_is_slower_for_certain():
    unsure = passed(0.5, speedup={"eager": Ratio(ratio=0.5, low=0.2, high=1.3)})
    found = (load("a"), passed(8.0)), (load("b"), unsure), (load("c"), passed(0.6))
    assert judged(*found).speedup["eager"] == ratio(0.6)


def test_a_workload_that_is_held_out_has_no_weight_and_may_not_be_slower():
    base = (load("a"), passed(4.0))
    fast, slow = (
        (load("h", held_out=True), passed(100.0)),
        (load("h", held_out=True), passed(0.5)),
    )
    assert judged(base, fast).speedup["eager"].ratio == pytest.approx(4.0)
    assert judged(base, slow).speedup["eager"] == ratio(0.5)


def test_a_baseline_that_one_workload_lacks_is_none_of_the_verdict():
    both = passed(2.0, speedup={"eager": ratio(2.0), "compile": ratio(3.0)})
    assert set(judged((load("a"), both), (load("b"), passed(2.0))).speedup) == {"eager"}


def test_an_outcome_of_several_workloads_comes_back_from_its_record():
    told = judged((load("a"), passed(2.0)), (load("b"), passed(3.0)))
    assert from_json(to_json(told)) == told


def test_nothing_is_judged_further_once_a_workload_failed():
    class Given:
        def __init__(self, outcome):
            self.outcome, self.asked = outcome, 0

        def prepare(self, progress=None):
            raise AssertionError

        def judge(self, source, *, thorough=False):
            self.asked += 1
            return self.outcome

        def close(self): ...

    first, second = Given(Wrong(reason="3 differ")), Given(passed(2.0))
    seats = [
        WorkloadSeat(workload=load(name), judge=one) for name, one in (("a", first), ("b", second))
    ]
    outcome = WorkloadJudge(seats, allow_slower=False).judge("x")
    assert outcome == replace(first.outcome, reason="workload a: 3 differ")
    assert second.asked == 0


def test_a_workload_whose_answer_never_changes_does_not_count():
    constant = load("one", 3.0), passed(50.0, degenerate=True)
    told = judged((load("a"), passed(2.0)), constant)
    assert told.speedup["eager"].ratio == pytest.approx(2.0)
    assert not told.degenerate
    assert judged(constant).degenerate


def test_a_workload_that_nobody_saw_marks_the_verdict_with_the_least_that_was_seen():
    seen, some, none = (passed(1.0, profile=one) for one in ({}, {"seen": 0.4}, {"seen": 0.1}))
    told = judged((load("a"), seen), (load("b"), some), (load("c"), none))
    assert told.unseen
    assert told.profile == {"seen": 0.1}
    assert not judged((load("a"), seen), (load("b"), seen)).unseen
