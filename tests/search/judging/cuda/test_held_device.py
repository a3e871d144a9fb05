"""Who holds the device is refused; a slow device, and a slow host, are no reason."""

from collections.abc import Callable

import pytest

from search.judging.cpu.timing import Timing
from search.judging.cuda.held_device import heard_again, require_free
from search.outcome import Passed, Refused
from search.sandbox.faults import Fault


def eager(*blocks: float) -> Timing:
    return Timing(seconds={"eager": min(blocks)}, samples=0, speedup={}, calls={"eager": blocks})


def test_a_candidate_that_keeps_the_device_busy_is_told_from_somebody_else() -> None:
    before, beside = eager(100e-6), eager(200e-6)
    assert require_free(before, eager(120e-6), lambda: pytest.fail("nothing was slow")) == 1
    with pytest.raises(Fault) as found:
        require_free(before, beside, lambda: eager(105e-6))
    assert isinstance(found.value.outcome, Refused)
    assert found.value.outcome.trick == "holds-the-device"
    assert require_free(before, beside, lambda: eager(190e-6)) == pytest.approx(1.9)
    uneven = iter([105e-6, 120e-6, 170e-6])
    assert require_free(before, beside, lambda: eager(next(uneven))) == pytest.approx(1.7)


def test_one_block_in_which_the_device_was_free_says_nothing_of_the_others() -> None:
    before, alone = eager(100e-6, 101e-6, 102e-6), eager(100e-6, 104e-6, 190e-6)
    with pytest.raises(Fault):
        require_free(before, eager(100e-6, *[200e-6] * 5), lambda: alone)
    assert require_free(before, eager(*[104e-6] * 5, 300e-6), lambda: alone) == 1


def heard(*said: object) -> Callable[[], tuple[Passed, float]]:
    """Return what judges again and again: an outcome each, a refusal's trick as text."""
    left = iter(said)

    def hear() -> tuple[Passed, float]:
        one = next(left)
        if isinstance(one, Passed):
            return one, 1.5
        raise Fault(Refused(reason="so it is said", trick=str(one)))

    return hear


def test_a_candidate_is_judged_again_where_a_slow_host_looks_like_a_held_device() -> None:
    passed = Passed(seconds=1e-3, samples=1, speedup={}, max_error=0.0, allowed_error=0.0)
    assert heard_again(heard(passed)) == (passed, 1.5)
    assert heard_again(heard("holds-the-device", "work-outside-the-clock", passed)) == (passed, 1.5)
    assert heard_again(heard("timer-mismatch", passed)) == (passed, 1.5)
    assert heard_again(heard("holds-the-device", "timer-mismatch", passed)) == (passed, 1.5)
    with pytest.raises(Fault) as found:
        heard_again(heard(*["holds-the-device"] * 3))
    assert found.value.outcome.trick == "holds-the-device"
    with pytest.raises(Fault) as found:
        heard_again(heard("holds-the-device", "cached-output", passed))
    assert found.value.outcome.trick == "cached-output"
    with pytest.raises(Fault) as found:
        heard_again(heard("timer-mismatch", "timer-mismatch", passed))
    assert found.value.outcome.trick == "timer-mismatch"
