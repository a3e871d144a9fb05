import pytest
from machines import TWO_CORES

from search.costs.graph import Work
from search.judged import plain_target
from search.judging.floor import bounded
from search.outcome import Refused
from search.sandbox.faults import Fault

TARGET = plain_target(TWO_CORES)  # 2e10 bytes/s
WORK = Work(flops=1e6, bytes=2e7, traffic=4e7, families=("elementwise",), sure_bytes=2e7)
FLOOR = 1e-3  # seconds to move what nobody can spare


def test_what_is_kept_of_the_bound_is_the_share_that_was_reached() -> None:
    found = bounded(WORK, 2 * FLOOR, TARGET, degenerate=False)
    assert found["roofline"] == pytest.approx(0.5)
    assert found["floor_seconds"] == pytest.approx(FLOOR)
    assert bounded(None, FLOOR / 100, TARGET, degenerate=False) == {}


def test_a_clock_that_is_a_little_fast_is_no_cheat_and_half_the_bound_is() -> None:
    assert bounded(WORK, 0.51 * FLOOR, TARGET, degenerate=False)["roofline"] > 1.9
    with pytest.raises(Fault) as found:
        bounded(WORK, 0.49 * FLOOR, TARGET, degenerate=False)
    assert isinstance(found.value.outcome, Refused)
    assert found.value.outcome.trick == "beats-the-roofline"
    assert "two-cores" in found.value.outcome.reason


def test_an_answer_that_is_always_the_same_need_not_be_computed() -> None:
    assert bounded(WORK, FLOOR / 100, TARGET, degenerate=True)["roofline"] > 99
