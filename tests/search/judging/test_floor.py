from dataclasses import replace
from pathlib import Path

import pytest
from machines import TWO_CORES

from search.costs.graph import Work
from search.judged import JudgedSettings, JudgedTask, JudgedTolerances, plain_target
from search.judging.floor import bounded
from search.outcome import Refused
from search.sandbox.faults import Fault

TARGET = plain_target(TWO_CORES)  # 2e10 bytes/s
WORK = Work(flops=1e6, bytes=2e7, traffic=4e7, families=("elementwise",), sure_bytes=2e7)
WEIGHTS = replace(WORK, sure_weights=1.6e7)  # of float32
FLOOR = 1e-3  # seconds to move what nobody can spare


def task(precision: str | JudgedTolerances, packing: str = "allowed") -> JudgedTask:
    settings = JudgedSettings(
        precision=precision, library="allowed", special_values=False, packing=packing
    )
    return JudgedTask(name="a", reference=Path("a.py"), source="", identity="", settings=settings)


STRICT = task("strict")


def test_what_is_kept_of_the_bound_is_the_share_that_was_reached() -> None:
    found = bounded(WORK, 2 * FLOOR, TARGET, STRICT, degenerate=False)
    assert found["roofline"] == pytest.approx(0.5)
    assert found["floor_seconds"] == pytest.approx(FLOOR)
    assert bounded(None, FLOOR / 100, TARGET, STRICT, degenerate=False) == {}


def test_a_clock_that_is_a_little_fast_is_no_cheat_and_half_the_bound_is() -> None:
    assert bounded(WORK, 0.51 * FLOOR, TARGET, STRICT, degenerate=False)["roofline"] > 1.9
    with pytest.raises(Fault) as found:
        bounded(WORK, 0.49 * FLOOR, TARGET, STRICT, degenerate=False)
    assert isinstance(found.value.outcome, Refused)
    assert found.value.outcome.trick == "beats-the-roofline"
    assert "two-cores" in found.value.outcome.reason


def test_an_answer_that_is_always_the_same_need_not_be_computed() -> None:
    assert bounded(WORK, FLOOR / 100, TARGET, STRICT, degenerate=True)["roofline"] > 99


@pytest.mark.parametrize("precision", ["half", "tf32", "framework", "kernelbench"])
def test_weights_that_a_constructor_keeps_in_ten_bits_are_no_cheat_where_the_task_admits_them(
    precision,
):
    seconds = FLOOR * (0.4e7 + 1.6e7 * 10 / 32) / 2e7
    assert bounded(WEIGHTS, seconds, TARGET, task(precision), degenerate=False)["roofline"] > 1
    for other in (STRICT, task(precision, "forbidden")):
        with pytest.raises(Fault):
            bounded(WEIGHTS, seconds, TARGET, other, degenerate=False)
    with pytest.raises(Fault):  # inputs and answers move whole
        bounded(WORK, seconds, TARGET, task(precision), degenerate=False)


def test_tolerances_of_a_task_may_admit_weights_of_any_few_bits():
    loose = task(JudgedTolerances(absolute=0.1, relative=0.1))
    found = bounded(WEIGHTS, FLOOR / 5, TARGET, loose, degenerate=False)
    assert found["floor_seconds"] == pytest.approx(FLOOR / 5)
    assert found["floor_memory"] == pytest.approx(FLOOR), "the roof in plots is the reference's"
