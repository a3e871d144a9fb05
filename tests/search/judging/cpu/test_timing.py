import dataclasses
import math
import os
import random
import subprocess
import sys
from collections.abc import Iterable, Mapping
from itertools import count, cycle, repeat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from search.judging.cpu import timing
from search.judging.cpu.timing import (
    Drawn,
    Evictor,
    Local,
    Sample,
    TimingSession,
    choose_seats,
    interval,
    low,
    one_thread,
)


def test_the_interval_of_a_median_holds_it_as_often_as_it_says() -> None:
    rng = random.Random(1)
    held = 0
    for _ in range(2000):
        ratio = interval([rng.lognormvariate(0.0, 0.3) for _ in range(6)])
        assert ratio.confidence == pytest.approx(1 - 2 / 64, abs=1e-3)
        held += ratio.low <= 1.0 <= ratio.high
    assert held / 2000 >= 0.95


def test_more_blocks_cut_the_extremes_off() -> None:
    ratio = interval([float(n) for n in range(1, 13)])
    assert (ratio.low, ratio.ratio, ratio.high) == (3.0, 6.5, 10.0)
    assert ratio.confidence >= 0.95


def test_too_few_blocks_say_how_little_they_know() -> None:
    assert interval([1.0, 2.0, 3.0]).confidence == pytest.approx(0.75)


DRAWN: Any = Drawn(inputs=(), state=None, trial=None, audit=False)  # type: ignore[arg-type] # not looked at


class Contender:
    """Takes times from a row instead of a clock."""

    def __init__(self, times: Iterable[float | Sample], events: list[str] | None = None) -> None:
        self._times = iter(times)
        self._events = [] if events is None else events

    def place(self, drawn: Drawn) -> None:
        self._events.append("audit" if drawn.audit else "placed")

    def sample(self) -> Sample:
        self._events.append("sampled")
        value = next(self._times)
        return value if isinstance(value, Sample) else Sample(value, (), True)


def _race(contenders: Mapping[str, Contender], **settings: Any) -> TimingSession:
    chosen = {
        "blocks": 6,
        "seconds": 0.01,
        "audits": False,
        "draw": lambda audit: dataclasses.replace(DRAWN, audit=audit),
        "check": lambda *_: None,
        "prepare": lambda: None,
        **settings,
    }
    return TimingSession(contenders=contenders, **chosen)


def test_a_burst_that_slows_some_samples_does_not_move_the_ratio() -> None:
    times = {"eager": [2.0, 2.0, 9.0], "candidate": [7.0, 1.0, 1.0]}
    contenders = {name: Contender(cycle(values)) for name, values in times.items()}
    timing = _race(contenders).run()
    assert timing.speedup["eager"].ratio == pytest.approx(2.0)
    assert timing.seconds == {"eager": 2.0, "candidate": 1.0}


def test_what_was_timed_is_kept_for_whoever_looks() -> None:
    times = {"eager": [2.0, 3.0], "candidate": [1.00049, 7.0]}
    timing = _race({name: Contender(cycle(values)) for name, values in times.items()}).run()
    assert len(timing.calls["candidate"]) == len(timing.calls["eager"]) == timing.samples
    assert set(timing.calls["candidate"]) == {1.0, 7.0}, "four digits of each"


def test_the_share_of_blocks_that_were_seen_is_that_of_the_contender_with_the_least() -> None:
    seen = [Sample(1.0, (), True), Sample(2.0, (), True, seen=False), Sample(3.0, (), True)]
    late = [one._replace(seen=not one.seen) for one in seen]
    mixed = _race({"eager": Contender(cycle(seen)), "candidate": Contender(cycle(late))}).run()
    assert mixed.seen == 0.0, "the low sample of a block is its first"
    assert _race({name: Contender(cycle(seen)) for name in ("eager", "candidate")}).run().seen == 1.0


def test_one_fast_call_in_a_long_block_does_not_count() -> None:
    assert low([5.0, 1.0, 5.0, 5.0], 4) == 1.0
    assert low([5.0] * 19 + [1.0], 20) == 5.0
    assert low([5.0] * 14 + [1.0] * 6, 20) == 1.0
    assert low([5.0] * 11 + [1.0], 3) == 1.0


def test_every_contender_comes_first_as_often_as_last() -> None:
    order: list[str] = []

    class Noted(Contender):
        def __init__(self, name: str) -> None:
            super().__init__(repeat(1.0))
            self._name = name

        def sample(self) -> Sample:
            order.append(self._name)
            return super().sample()

    contenders = {name: Noted(name) for name in ("eager", "compile", "candidate")}
    _race(contenders, seconds=0.0).run()
    first = order[-3 * 18 :: 3]  # without the warm-up
    assert {first.count(name) for name in contenders} == {6}


def test_a_block_goes_on_while_a_contender_was_disturbed_in_all_of_it() -> None:
    disturbed = (Sample(1.0, (), n % 5 == 0) for n in count(1))
    contenders = {"eager": Contender(repeat(1.0)), "candidate": Contender(disturbed)}
    assert _race(contenders, seconds=10.0, most_rounds=3).run().samples > 6 * 3


def test_inputs_are_fresh_in_each_round_and_caches_are_emptied_when_they_are_in_place() -> None:
    events: list[str] = []
    contenders = {name: Contender(repeat(1.0), events) for name in ("eager", "candidate")}

    def draw(audit: bool) -> Drawn:
        events.append("fresh")
        return dataclasses.replace(DRAWN, audit=audit)

    _race(
        contenders,
        draw=draw,
        check=lambda *_: events.append("checked"),
        prepare=lambda: events.append("cold"),
        blocks=1,
        seconds=0.0,
        most_rounds=1,
    ).run()
    assert events[:8] == ["fresh", *["placed", "cold", "sampled"] * 2, "checked"]
    assert events.count("cold") == 2 * events.count("fresh")


def test_a_secret_share_of_the_rounds_is_audited_and_left_out_of_the_figures() -> None:
    places = set()
    for _ in range(20):
        events: list[str] = []
        contenders = {"eager": Contender(repeat(1.0)), "candidate": Contender(repeat(1.0), events)}
        timing = _race(contenders, audits=True, most_rounds=10, seconds=10.0).run()
        kinds = [event for event in events if event != "sampled"]
        assert kinds.count("audit") == 6
        assert timing.samples == kinds.count("placed") - 2  # the warm-up
        places.add(tuple(n for n, kind in enumerate(kinds) if kind == "audit"))
    assert len(places) == 20


@pytest.mark.parametrize("audits", [0, 4, 16, 100])
def test_a_session_takes_the_time_that_it_has_however_many_rounds_are_audited(
    monkeypatch: pytest.MonkeyPatch, audits: int
) -> None:
    now = [0.0]
    monkeypatch.setattr(timing, "time", SimpleNamespace(monotonic=lambda: now[0]))

    class Timed(Contender):
        def sample(self) -> Sample:
            now[0] += 0.01
            return super().sample()

    contenders = {name: Timed(repeat(0.01)) for name in ("eager", "candidate")}
    _race(contenders, seconds=4.0, audits=audits).run()
    assert 3.6 < now[0] <= 4.04  # rounds of a block are whole


@pytest.mark.parametrize(("whole", "lasts"), [(True, 4.0), (False, 0.4)])
def test_where_short_calls_leave_seconds_of_a_winner_it_is_looked_at_on(
    monkeypatch: pytest.MonkeyPatch, whole: bool, lasts: float
) -> None:
    now = [0.0]
    monkeypatch.setattr(timing, "time", SimpleNamespace(monotonic=lambda: now[0]))
    seen: list[float] = []

    class Timed(Contender):
        def sample(self) -> Sample:
            now[0] += 0.01
            return super().sample()

    contenders = {name: Timed(repeat(0.01)) for name in ("eager", "candidate")}
    done = _race(
        contenders, seconds=4.0, most_rounds=3, check=lambda *_: seen.append(now[0])
    ).run(whole=whole)
    assert done.samples == 6 * 3
    assert seen[-1] == pytest.approx(lasts, abs=0.03)


def test_the_judge_and_the_contenders_sit_on_processors_that_are_theirs() -> None:
    seats = choose_seats()
    with one_thread():
        assert torch.get_num_threads() == 1
    assert seats.shared is (seats.stage == seats.seat)


def test_a_call_in_this_process_is_timed_with_its_outputs() -> None:
    contender = Local(lambda x: (x + 1, x + 2))
    contender.place(dataclasses.replace(DRAWN, inputs=(torch.zeros(2),)))
    sample = contender.sample()
    assert 0 < sample.seconds < 1
    assert [float(value[0]) for value in sample.outputs] == [1.0, 2.0]


def test_eviction_is_bounded_on_machines_with_huge_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "_MOST_EVICTED", 256 << 20)  # tests have less, see `conftest.py`
    assert Evictor(4 << 30)._buffer.nbytes == 256 << 20
    assert Evictor(32 << 20)._buffer.nbytes == 64 << 20


@pytest.mark.slow
def test_judges_of_one_user_take_turns(tmp_path: Path) -> None:
    code = (
        "import time\n"
        "from search.judging.cpu.timing import CpuPinning, taken\n"
        "with taken(CpuPinning(stage=0, seat=0)):\n"
        "    began = time.monotonic()\n"
        "    time.sleep(0.3)\n"
        "    print(began, time.monotonic())\n"
    )
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    both = [
        subprocess.Popen([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    spans = sorted(tuple(map(float, one.communicate()[0].split())) for one in both)
    assert spans[0][1] <= spans[1][0]
