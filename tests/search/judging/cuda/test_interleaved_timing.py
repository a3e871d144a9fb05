"""Two clocks, neither of them believed alone: with contenders whose times are known exactly."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from search.judging.cuda.batches import Batch
from search.judging.cpu.timing import Timing
from search.judging.cuda.interleaved_timing import CudaTimingSession, Pace, resident_share
from search.sandbox.faults import Fault
from search.outcome import Crashed, Passed, Refused

FLUSH, SMALLEST = 50e-6, 5e-6


class Device:
    """A contender on a device that takes exactly as long as it says.

    Args:
        call: seconds of a call.
        told: seconds that its events say.
        host: seconds of enqueueing a call.
        flushes: False for one whose caches are never emptied.
        beyond: seconds that a call costs outside its events.
        fill: seconds of putting the inputs of a call in place.
        late: seconds that the host adds to each emptying of the caches.
        between: seconds from a call's end to the next one's start, beyond emptying the caches.
    """

    def __init__(
        self,
        call: float,
        told: float | None = None,
        host: float = 1e-6,
        flushes: bool = True,
        beyond: float = 0.0,
        fill: float = 10e-6,
        late: float = 0.0,
        between: float = 0.0,
    ) -> None:
        self.between = between
        self.call, self.told, self.host, self.flushes = call, told, host, flushes
        self.beyond, self.fill, self.late = beyond, fill, late
        self.given: list[Any] = []

    def smallest(self, calls: int) -> Batch:
        # Whoever else uses the device makes most of them longer.
        device = (SMALLEST, *(20 * SMALLEST,) * (calls - 1))
        return Batch(device=device, wall=calls * FLUSH, host=0.0)

    def batch(
        self, calls: int, flushes: int, *, empty: bool = False, given: Any = None
    ) -> Batch:
        self.given.append(given)
        device = 0.0 if empty else self.call + self.beyond
        each = ((FLUSH + self.late) * flushes if self.flushes else 0.0) + device
        slow = max(each, 0.0 if empty else self.host)
        seen = 0.0 if empty else (self.call if self.told is None else self.told)
        between = FLUSH * flushes + (0.0 if empty else self.between)
        return Batch(
            device=(seen,) * calls,
            wall=slow * calls,
            host=self.host * calls,
            fill=self.fill,
            between=between,
        )


def race(
    candidate: Device | None,
    watch: Callable[[], object] = lambda: None,
    beyond: float = 0.0,
    late: float = 0.0,
) -> CudaTimingSession:
    return CudaTimingSession(
        rivals={
            "eager": Device(40e-6, beyond=beyond, late=late, between=beyond),
            "compile": Device(30e-6, beyond=beyond, between=beyond),
        },
        candidate=candidate,
        draw=lambda calls: ["fresh"] * calls,
        check=lambda batch, given: None,
        watch=watch,
        most=100,
        blocks=6,
        seconds=0.05,
        flush_seconds=FLUSH,
        resident=0.4,
    )


def test_ratios_are_those_of_the_devices_times() -> None:
    timing = race(Device(20e-6)).run()
    assert timing.seconds["candidate"] == pytest.approx(20e-6)
    assert timing.speedup["eager"].ratio == pytest.approx(2.0)
    assert timing.speedup["compile"].ratio == pytest.approx(1.5)
    assert timing.calls["compile"] == pytest.approx([30e-6] * 6), "the mean of each batch is kept"


@pytest.mark.parametrize("again", [0, 1])
def test_where_memory_is_scarce_a_candidate_warms_up_once_or_twice(
    monkeypatch: pytest.MonkeyPatch, again: int
) -> None:
    # So that its timed answer does not always lie in the same of two places.
    monkeypatch.setattr("secrets.randbits", lambda _bits: again)
    session = replace(race(Device(20e-3)), most=1, rivals={"eager": Device(40e-3)})
    session.run()
    candidate = session.candidate
    assert isinstance(candidate, Device)
    blocks = candidate.given[-(2 + again) * 6 :]
    assert blocks == [*[None] * (1 + again), ["fresh"]] * 6


def test_a_session_that_is_over_its_time_ends_after_twelve_blocks() -> None:
    short = replace(race(Device(20e-6)), blocks=30, seconds=0.0).run()
    assert short.samples == 12 * 3
    assert short.speedup["eager"].confidence > 0.95
    assert replace(race(Device(20e-6)), blocks=6, seconds=0.0).run().samples == 6 * 3


def test_without_a_candidate_the_baselines_are_timed() -> None:
    timing = race(None).run()
    assert timing.seconds == pytest.approx({"eager": 40e-6, "compile": 30e-6})


def refusal(candidate: Device) -> Refused:
    with pytest.raises(Fault) as caught:
        race(candidate).run()
    assert isinstance(caught.value.outcome, Refused)
    return caught.value.outcome


def test_events_that_say_less_than_the_clock_are_refused() -> None:
    assert refusal(Device(100e-6, told=5e-6)).trick == "timer-mismatch"


def test_what_the_clock_always_sees_beyond_the_events_is_charged() -> None:
    timing = race(Device(20e-6, told=15.7e-6)).run()
    assert timing.seconds["candidate"] == pytest.approx(20e-6)


def test_events_recorded_again_save_nothing_that_the_frameworks_events_see() -> None:
    """On an H200 a kernel's events see 3 us that the clock does not: it starts while caches are being emptied."""
    honest = race(Device(15e-6, beyond=-3e-6), beyond=-3e-6).run()
    cheat = race(Device(12e-6, told=1e-6), beyond=-3e-6).run()
    assert honest.seconds["candidate"] == pytest.approx(15e-6)
    assert cheat.seconds["candidate"] == pytest.approx(15e-6)


def test_a_start_recorded_again_is_seen_between_the_calls_where_the_clock_sees_nothing() -> None:
    """Host and clock of a batch vary by microseconds a call; what lies between two events of the device does not."""
    hidden = Device(8e-6, told=5e-6, between=4e-6)
    timing = race(hidden, beyond=-2e-6).run()
    assert timing.seconds["candidate"] == pytest.approx(11e-6), "4 us, and 2 that eager's events see"
    honest = race(Device(8e-6, between=2.9e-6)).run()
    assert honest.seconds["candidate"] == pytest.approx(8e-6)


def test_no_call_takes_less_than_the_smallest_kernel() -> None:
    """Events recorded again hide a small kernel whole: too little for the clock, and most of what there is."""
    cheat = race(Device(3e-6, told=1e-6), beyond=-3e-6).run()
    honest = race(Device(4.9e-6)).run()
    assert cheat.seconds["candidate"] == pytest.approx(0.9 * SMALLEST)
    assert honest.seconds["candidate"] == pytest.approx(4.9e-6)


def calls_of(contender: Device) -> list[int]:
    """Return how many calls each batch on fresh inputs had."""
    return [len(given) for given in contender.given if given is not None]


def test_beside_a_slow_framework_few_calls_are_made_and_checked() -> None:
    """`torch.qr` of ten thousand small matrices takes a GPU half a second, and every answer is checked by one."""
    slow, quick = Device(3.0), Device(20e-6)
    session = replace(race(quick), rivals={"eager": slow}, blocks=30, seconds=0.5)
    timing = session.run()
    assert timing.speedup["eager"].ratio == pytest.approx(3.0 / 20e-6)
    assert calls_of(slow) == [1, 1] + [1] * 30, "no time has passed here, else there were six"
    assert calls_of(quick)[-30:] == [3] * 30


def test_a_candidate_far_ahead_of_the_framework_is_asked_no_more_than_can_be_checked() -> None:
    eager, quick = Device(5e-3), Device(20e-6)
    timing = replace(race(quick), rivals={"eager": eager}, seconds=0.5).run()
    assert timing.speedup["eager"].ratio == pytest.approx(250)
    assert calls_of(quick)[-6:] == [33] * 6, "4 times a twelfth of the session, at 5 ms each"
    quick = Device(20e-6)
    replace(race(quick), rivals={"eager": Device(0.1)}).run()
    assert calls_of(quick)[-6:] == [8] * 6


class Sneaky(Device):
    """Honest in its first timed batch; after that its events tell less than the clock sees, too little to be refused.

    Args:
        slow: it takes longer until it is timed, so that it gets few calls.
    """

    def __init__(self, call: float, told: float, *, slow: bool) -> None:
        super().__init__(call)
        self.lie, self.slow, self.fresh = told, slow, 0

    def batch(self, calls: int, flushes: int, *, empty: bool = False, given: Any = None) -> Batch:
        self.fresh += given is not None
        timed = self.fresh > 2  # before, its pace is found
        self.told = self.lie if self.fresh > 3 else self.call
        told = super().batch(calls, flushes, empty=empty, given=given)
        if timed or not self.slow:
            return told
        time.sleep(0.06)  # it is warm enough then
        return replace(told, wall=told.wall + 0.3)


@pytest.mark.parametrize("eager", [0.5, 40e-6])
def test_few_calls_hide_nothing_in_what_a_batch_costs(eager: float) -> None:
    """Three calls could hide 60 us among them: all of what the clock sees counts there."""
    cheat = Sneaky(21e-6, 8e-6, slow=eager < 1e-3)
    timing = replace(race(cheat), rivals={"eager": Device(eager)}, seconds=0.5).run()
    assert calls_of(cheat)[-6:] == [3] * 6
    assert timing.speedup["eager"].ratio == pytest.approx(eager / 21e-6)


def test_an_honest_program_loses_nothing_by_few_calls() -> None:
    honest = replace(race(Device(21e-6)), rivals={"eager": Device(0.5)}, seconds=0.5).run()
    assert honest.seconds["candidate"] == pytest.approx(21e-6)


def test_what_a_slow_framework_leaves_unexplained_is_no_measure_of_microseconds() -> None:
    """Two clocks that differ by 50 in a million are 25 us apart after half a second."""
    for apart in (25e-6, -25e-6):
        slow = Device(0.5, beyond=apart)
        timing = replace(race(Device(21e-6)), rivals={"eager": slow}, seconds=0.5).run()
        assert timing.seconds["candidate"] == pytest.approx(21e-6)


def test_a_first_call_that_loads_libraries_makes_nobody_slow() -> None:
    class Cold(Device):
        def batch(self, calls: int, flushes: int, *, empty: bool = False, given: Any = None) -> Batch:
            told = super().batch(calls, flushes, empty=empty, given=given)
            return told if len(self.given) > 1 else replace(told, wall=told.wall + 0.4)

    cold = Cold(40e-6)
    timing = replace(race(Device(20e-6)), rivals={"eager": cold}).run()
    assert timing.speedup["eager"].ratio == pytest.approx(2.0)
    assert calls_of(cold)[-1] > 20


def test_caches_that_are_not_emptied_are_refused() -> None:
    assert "not emptied" in refusal(Device(20e-6, flushes=False)).reason


def test_what_the_caches_still_held_may_be_spared() -> None:
    timing = race(Device(20e-6, beyond=-0.3 * FLUSH)).run()
    assert timing.seconds["candidate"] == pytest.approx(20e-6)
    assert "not emptied" in refusal(Device(20e-6, beyond=-0.6 * FLUSH)).reason


def test_where_the_caches_are_emptied_several_times_a_part_may_be_missing() -> None:
    slow = Device(20e-6, host=150e-6, beyond=-0.9 * FLUSH)  # five times for each call
    assert race(slow).run().seconds["candidate"] == pytest.approx(20e-6)
    assert "not emptied" in refusal(Device(20e-6, host=150e-6, beyond=-3 * FLUSH)).reason


def test_a_framework_that_the_host_delays_makes_no_cheat_of_a_candidate() -> None:
    for delay in ({"beyond": 80e-6}, {"late": 80e-6}):
        timing = race(Device(20e-6), **delay).run()
        assert timing.seconds["candidate"] == pytest.approx(20e-6)
        with pytest.raises(Fault) as caught:
            race(Device(20e-6, flushes=False), **delay).run()
        assert isinstance(caught.value.outcome, Refused)
        assert "not emptied" in caught.value.outcome.reason


def test_what_may_be_spared_leaves_more_than_the_cache_holds() -> None:
    assert resident_share(0, 256) == 0
    assert resident_share(60, 256) == 120 / 256
    assert resident_share(126, 256) == 130 / 256
    assert resident_share(300, 256) == 0


def test_a_slow_host_is_given_more_work_ahead_and_is_no_cheat() -> None:
    timing = race(Device(20e-6, host=300e-6)).run()
    assert timing.seconds["candidate"] == pytest.approx(20e-6)


def test_where_the_host_cannot_keep_up_the_judges_clock_counts() -> None:
    slow = Device(20e-6, told=1e-6, host=3e-3)
    timing = race(slow).run()
    assert timing.seconds["candidate"] > 1e-3


def test_every_contender_gets_fresh_inputs_before_each_timed_batch() -> None:
    candidate = Device(20e-6)
    races = race(candidate)
    checked: list[int] = []
    replace(races, check=lambda batch, given: checked.append(len(given))).run()
    for one in (candidate, *races.rivals.values()):
        assert isinstance(one, Device)
        timed = [given for given in one.given if given and len(given) > 2]
        assert len(timed) == 6
    assert checked == [len(given) for given in candidate.given if given and len(given) > 2]


def test_a_kernel_that_runs_while_inputs_are_put_in_place_is_refused() -> None:
    refused = refusal(Device(20e-6, fill=40e-6))
    assert refused.trick == "work-outside-the-clock"
    assert race(Device(20e-6, fill=10.5e-6)).run().seconds["candidate"] > 0


def test_inputs_that_take_longer_because_there_are_many_are_nobodys_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    batch = Device.batch

    def slower_in_long_batches(self: Device, calls: int, *args: Any, **named: Any) -> Batch:
        made = batch(self, calls, *args, **named)
        return replace(made, fill=made.fill * (4 if calls > 40 else 1))

    candidate = Device(5e-6)
    assert race(candidate).run().seconds["candidate"] == pytest.approx(5e-6)
    assert max(map(len, filter(None, candidate.given))) > 40
    monkeypatch.setattr(Device, "batch", slower_in_long_batches)
    assert race(Device(5e-6)).run().seconds["candidate"] == pytest.approx(5e-6)
    assert refusal(Device(5e-6, fill=40e-6)).trick == "work-outside-the-clock"


def test_what_the_frameworks_own_calls_leave_unexplained_is_nobodys_fault() -> None:
    timing = race(Device(20e-6, beyond=25e-6), beyond=25e-6).run()
    assert timing.seconds["candidate"] == pytest.approx(20e-6)
    assert refusal(Device(20e-6, beyond=90e-6)).trick == "timer-mismatch"


@pytest.mark.parametrize("seen", [4e-6, 40e-6])
def test_changing_over_between_streams_is_charged(seen: float) -> None:
    timing = race(Device(seen + 20e-6, told=seen)).run()
    assert timing.seconds["candidate"] == pytest.approx(seen + 20e-6)
    assert timing.speedup["eager"].ratio == pytest.approx(40e-6 / (seen + 20e-6))


def test_the_clocks_are_looked_at_after_every_batch() -> None:
    looks: list[int] = []
    race(Device(20e-6), watch=lambda: looks.append(1)).run()
    assert len(looks) == 6 * 3


class Broken(Device):
    """A baseline that raises in a timed call."""

    def batch(
        self, calls: int, flushes: int, *, empty: bool = False, given: Any = None
    ) -> Batch:
        raise Fault(Crashed(reason="forward raised OutOfMemoryError"))


def test_a_baseline_that_ends_is_named_and_not_taken_for_the_candidate() -> None:
    races = race(Device(20e-6))
    with pytest.raises(Fault) as caught:
        races._batch(Broken(1e-6), "compile", Pace(calls=3, flushes=1), None)
    assert caught.value.outcome.kind == "crashed"
    assert caught.value.outcome.reason.startswith("compile, which is timed beside it")


class Uneven(Device):
    """A contender that is honest in one batch of six, and in the others as it was made."""

    def __init__(self, honest: Device, other: Device) -> None:
        super().__init__(other.call)
        self._both, self.timed = (honest, other), 0

    def batch(
        self, calls: int, flushes: int, *, empty: bool = False, given: Any = None
    ) -> Batch:
        if given is not None and len(given) > 2:
            self.timed += 1
        return self._both[self.timed % 6 != 1].batch(calls, flushes, empty=empty, given=given)


def test_one_honest_block_does_not_have_the_events_believed_in_the_others() -> None:
    timing = race(Uneven(Device(100e-6), Device(100e-6, told=5e-6))).run()
    assert timing.speedup["eager"].ratio == pytest.approx(0.4)
    assert timing.calls["candidate"] == pytest.approx([100e-6] * 6)


def test_one_honest_block_does_not_excuse_caches_that_are_not_emptied_in_the_others() -> None:
    refused = refusal(Uneven(Device(20e-6), Device(20e-6, flushes=False)))
    assert "not emptied" in refused.reason


def test_one_honest_block_does_not_excuse_a_kernel_that_runs_on_in_the_others() -> None:
    refused = refusal(Uneven(Device(20e-6), Device(20e-6, fill=40e-6)))
    assert refused.trick == "work-outside-the-clock"


def test_one_delayed_block_is_charged_and_does_not_move_the_ratio() -> None:
    timing = race(Uneven(Device(20e-6, beyond=900e-6), Device(20e-6))).run()
    assert timing.speedup["eager"].ratio == pytest.approx(2.0)
