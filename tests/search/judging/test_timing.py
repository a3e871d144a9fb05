import math
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from search.judging.cpu.timing import (
    Evictor,
    Sample,
    TimingSession,
    choose_seats,
    interval,
    local,
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


def _race(times: dict[str, list[float]], **settings: object) -> TimingSession:
    queues = {name: iter(values * 1000) for name, values in times.items()}
    contenders = {name: (lambda name=name: Sample(next(queues[name]), (), True)) for name in times}
    chosen = {"blocks": 6, "seconds": 0.01, **settings}
    return TimingSession(
        contenders=contenders,
        refresh=lambda: None,
        check=lambda _: None,
        prepare=lambda: None,
        **chosen,
    )  # type: ignore[arg-type] # settings are of mixed types


def test_a_burst_that_slows_some_samples_does_not_move_the_ratio() -> None:
    timing = _race({"eager": [2.0, 2.0, 9.0], "candidate": [7.0, 1.0, 1.0]}).run()
    assert timing.speedup["eager"].ratio == pytest.approx(2.0)
    assert timing.seconds == {"eager": 2.0, "candidate": 1.0}


def test_what_was_timed_is_kept_for_whoever_looks() -> None:
    timing = _race({"eager": [2.0, 3.0], "candidate": [1.00049, 7.0]}).run()
    assert len(timing.calls["candidate"]) == len(timing.calls["eager"]) == timing.samples
    assert set(timing.calls["candidate"]) == {1.0, 7.0}, "four digits of each"


def test_every_contender_comes_first_as_often_as_last() -> None:
    order: list[str] = []
    contenders = {
        name: (lambda name=name: order.append(name) or Sample(1.0, (), True))  # type: ignore[func-returns-value]
        for name in ("eager", "compile", "candidate")
    }
    TimingSession(
        contenders=contenders,
        refresh=lambda: None,
        check=lambda _: None,
        prepare=lambda: None,
        blocks=6,
        seconds=0.0,
    ).run()
    first = order[-3 * 18 :: 3]  # without the warm-up
    assert {first.count(name) for name in contenders} == {6}


def test_a_block_goes_on_while_a_contender_was_disturbed_in_all_of_it() -> None:
    calls = {"n": 0}

    def disturbed() -> Sample:
        calls["n"] += 1
        return Sample(1.0, (), calls["n"] % 5 == 0)

    race = TimingSession(
        contenders={"eager": lambda: Sample(1.0, (), True), "candidate": disturbed},
        refresh=lambda: None, check=lambda _: None, prepare=lambda: None, blocks=6, seconds=10.0, most_rounds=3,
    )  # fmt: skip
    assert race.run().samples > 6 * 3


def test_inputs_are_fresh_in_each_round_and_caches_are_emptied_before_each_call() -> None:
    events: list[str] = []
    TimingSession(
        contenders={name: lambda: Sample(1.0, (), True) for name in ("eager", "candidate")},
        refresh=lambda: events.append("fresh"), check=lambda _: events.append("checked"),
        prepare=lambda: events.append("cold"), blocks=1, seconds=0.0, most_rounds=1,
    ).run()  # fmt: skip
    assert events[:4] == ["fresh", "cold", "cold", "checked"]
    assert events.count("cold") == 2 * events.count("fresh")


def test_the_judge_and_the_contenders_sit_on_processors_that_are_theirs() -> None:
    seats = choose_seats()
    with one_thread():
        assert torch.get_num_threads() == 1
    assert seats.shared is (seats.stage == seats.seat)


def test_a_call_in_this_process_is_timed_with_its_outputs() -> None:
    sample = local(lambda x: (x + 1, x + 2), [torch.zeros(2)])
    assert 0 < sample.seconds < 1
    assert [float(value[0]) for value in sample.outputs] == [1.0, 2.0]


def test_eviction_is_bounded_on_machines_with_huge_caches() -> None:
    assert Evictor(4 << 30)._buffer.nbytes == 256 << 20
    assert math.isclose(Evictor(32 << 20)._buffer.nbytes, 64 << 20)


def test_judges_of_one_user_take_turns(tmp_path: Path) -> None:
    code = (
        "import time\n"
        "from search.judging.cpu.timing import Seats, taken\n"
        "with taken(Seats(stage=0, seat=0)):\n"
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
