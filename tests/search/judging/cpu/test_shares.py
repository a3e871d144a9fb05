from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

import pytest

from search.judging.cpu.looks import CodeTime, Looks
from search.judging.cpu.shares import OwnShare
from search.outcome import Refused
from search.sandbox.faults import Fault

def seen(own: float, library: float, met: int = 50, interpreter: float = 150) -> CodeTime:
    """Return what was seen of a call, in microseconds."""
    return CodeTime(
        own=own * 1e-6, library=library * 1e-6, met=met, interpreter=interpreter * 1e-6, calls=20
    )


HANDLING = seen(0, 20)


@dataclass
class ToldLooks:
    """What each look at a candidate sees, the last one from then on; and how often it was looked at."""

    tells: list[CodeTime]
    closer: int = 0
    audits: list[float] = field(default_factory=list)

    def enough(self, *, own: bool = False, times: int = 1) -> bool:
        return self.tells[0].met >= 40 * times and (not own or self.tells[0].own > 0)

    def look_closer(self) -> None:
        self.closer += 1

    def spent(self) -> CodeTime:
        return self.tells[0]

    def expected(self, seconds: float) -> float:
        return seconds * self.tells[0].calls / 25e-6

    def audit(self, enough: Callable[[], bool], seconds: float) -> None:
        self.audits.append(seconds)
        if len(self.tells) > 1:
            del self.tells[0]


def shares(*, required: bool = True, again: CodeTime = HANDLING) -> OwnShare:
    return OwnShare(required=required, handling=HANDLING, measure_handling=lambda: again)


def timed(told: CodeTime, *, required: bool = True) -> float | None:
    return shares(required=required).in_timed_calls(cast("Looks", ToldLooks([told])))


def audited(looks: ToldLooks, own_share: OwnShare) -> float | None:
    return own_share.in_audited_calls(cast("Looks", looks), looks.audit)


def test_timed_calls_decide_where_they_tell_clearly() -> None:
    assert timed(seen(50, 30)) == 1.0
    assert timed(seen(10, 100)) == pytest.approx(1 / 8)  # a library's work, far beyond handling
    assert timed(seen(50, 30, met=9)) is None  # too few
    assert timed(seen(10, 60)) is None  # might be handling on a busy machine
    assert timed(seen(50, 30), required=False) is None


def test_work_of_the_library_is_told_from_audited_calls_without_a_second_look() -> None:
    looks = ToldLooks([seen(1, 90), seen(1, 90)])
    assert audited(looks, shares()) == pytest.approx(1 / 61)
    assert (looks.closer, len(looks.audits)) == (1, 1)


@pytest.mark.parametrize("first", [seen(1, 35), seen(0, 31), seen(0, 25)])
def test_who_would_be_refused_for_handling_alone_is_looked_at_for_longer(first: CodeTime) -> None:
    looks = ToldLooks([first, first, seen(1, 28, met=170)])
    assert audited(looks, shares()) == 1.0
    assert len(looks.audits) == 2


def test_handling_is_measured_again_for_who_would_be_refused_for_it() -> None:
    looks = ToldLooks([seen(1, 45)])
    assert audited(looks, shares(again=seen(0, 35))) == 1.0


def test_a_machine_that_is_slower_by_now_is_slower_in_the_interpreter_too() -> None:
    assert audited(ToldLooks([seen(5, 66)]), shares()) == pytest.approx(5 / 41)
    assert audited(ToldLooks([seen(5, 66, interpreter=400)]), shares()) == 1.0


def test_a_share_that_stays_too_small_is_refused() -> None:
    looks = ToldLooks([seen(1, 70)])
    share = audited(looks, shares())
    assert share == pytest.approx(1 / 41)
    assert len(looks.audits) == 3
    for told, words in ((share, "2% is in kernels of its own"), (None, "none that could be seen")):
        with pytest.raises(Fault) as raised:
            shares().check(told)
        assert words in cast("Refused", raised.value.outcome).reason
    shares(required=False).check(share)


def test_where_nothing_is_forbidden_a_share_is_told_after_one_short_look() -> None:
    looks = ToldLooks([seen(10, 60)])
    assert audited(looks, shares(required=False)) == pytest.approx(1 / 4)
    assert looks.audits == [0.1]


def test_where_too_little_was_seen_it_is_looked_at_for_longer() -> None:
    looks = ToldLooks([seen(1, 6, met=5), seen(1, 6, met=5), seen(10, 60)])
    assert audited(looks, shares(required=False)) == pytest.approx(1 / 4)
    assert looks.audits == [0.1, 0.5]


def called(
    looks: ToldLooks,
    *,
    seconds: float = 1e-3,
    again: CodeTime = HANDLING,
    thorough: bool = True,
) -> None:
    told = cast("Looks", looks)
    shares(again=again).check_interpreter(told, looks.audit, seconds, thorough=thorough)


def test_calls_that_leave_out_the_interpreter_are_refused_after_a_second_look() -> None:
    looks = ToldLooks([seen(50, 0, interpreter=10)])
    with pytest.raises(Fault) as raised:
        called(looks)
    outcome = cast("Refused", raised.value.outcome)
    assert outcome.trick == "work-outside-the-clock"
    assert "10 us in the interpreter, and one that computes nothing 150 us" in outcome.reason
    assert len(looks.audits) == 2


@pytest.mark.parametrize("interpreter", [80, 150, 600])
def test_calls_through_the_interpreter_are_let_pass(interpreter: float) -> None:
    called(ToldLooks([seen(50, 0, interpreter=interpreter)]))


def test_a_busy_machine_when_handling_was_measured_is_no_reason_for_a_refusal() -> None:
    called(ToldLooks([seen(50, 0, interpreter=60)]), again=seen(0, 20, interpreter=70))


def test_what_could_save_three_percent_is_looked_at_once_it_has_won() -> None:
    looks = ToldLooks([seen(50, 0, interpreter=0)])
    called(looks, seconds=5e-3, thorough=False)
    assert looks.audits == []
    with pytest.raises(Fault):
        called(looks, seconds=5e-3)


def test_long_calls_and_systems_that_do_not_sample_are_let_pass() -> None:
    called(ToldLooks([seen(50, 0, interpreter=0)]), seconds=20e-3)
    called(ToldLooks([CodeTime(own=5e-5, library=0.0, met=50)]))
