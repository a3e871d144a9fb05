"""Problems are spread over devices: fake ones, which keep a count of who works at the same time."""

from __future__ import annotations

import threading
from collections import Counter

import pytest

from kb.app.bench.devices import BenchDevice, Dealer, choose_devices
from kb.errors import ConfigError

FOUR = tuple(BenchDevice(name=f"fake:{n}") for n in range(4))


class Fakes:
    """Devices that meet at a barrier, so that nothing ends before all of them are at work."""

    def __init__(self, number: int) -> None:
        self.meeting = threading.Barrier(number, timeout=20)
        self.lock = threading.Lock()
        self.busy: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.served: Counter[str] = Counter()

    def work(self, piece: int, device: BenchDevice) -> int:
        with self.lock:
            self.busy[device.name] += 1
            self.most[device.name] = max(self.most[device.name], self.busy[device.name])
        self.meeting.wait()
        with self.lock:
            self.busy[device.name] -= 1
            self.served[device.name] += 1
        return piece * 10


def test_every_device_works_at_the_same_time_on_one_problem_each():
    fakes = Fakes(4)
    found = list(Dealer(FOUR, fakes.work, lambda: None).run(range(12)))
    assert sorted(found) == [n * 10 for n in range(12)]
    assert fakes.most == {device.name: 1 for device in FOUR}
    assert set(fakes.served.values()) == {3}


def test_one_device_takes_problems_in_their_order():
    found = list(Dealer(FOUR[:1], lambda piece, _device: piece, lambda: None).run([3, 1, 2]))
    assert found == [3, 1, 2]


def test_a_problem_that_is_left_alone_stops_no_other():
    work = Dealer(FOUR[:1], lambda piece, _device: None if piece == 3 else piece, lambda: None)
    assert list(work.run([3, 1, 2])) == [1, 2]


def test_no_problem_means_no_work():
    assert list(Dealer(FOUR, lambda piece, _device: piece, lambda: None).run([])) == []


def test_a_consumer_that_goes_away_has_what_is_under_way_ended_and_nothing_begun():
    gone, begun = threading.Event(), []

    def work(piece: int, _device: BenchDevice) -> int | None:
        begun.append(piece)
        if piece == 0:
            return 0
        assert gone.wait(20)
        return None

    pieces = Dealer(FOUR[:2], work, gone.set).run([0, 1, 2, 3, 4])
    assert next(pieces) == 0
    pieces.close()
    assert gone.is_set()
    assert len(begun) <= 3


def test_a_bug_in_the_work_comes_out_where_results_are_awaited():
    def work(_piece: int, _device: BenchDevice) -> int:
        raise ZeroDivisionError("a bug")

    with pytest.raises(ZeroDivisionError, match="a bug"):
        list(Dealer(FOUR, work, lambda: None).run([1, 2]))


def test_a_processor_judges_one_problem_at_a_time():
    assert len(choose_devices("one", "cpu")) == 1
    with pytest.raises(ConfigError, match="disturb each other"):
        choose_devices("all", "cpu")


def test_devices_are_named_by_the_numbers_that_are_there(monkeypatch):
    from search.targets import cuda

    monkeypatch.setattr(cuda, "visible_gpus", lambda: ["GPU-a", "GPU-b", "MIG-c"])
    assert [one.environment for one in choose_devices("all", "cuda")] == [
        {"CUDA_VISIBLE_DEVICES": one} for one in ("GPU-a", "GPU-b", "MIG-c")
    ]
    assert [one.name for one in choose_devices("2, 0", "cuda")] == ["cuda:2", "cuda:0"]
    for wrong in ("3", "0,0", "x"):
        with pytest.raises(ConfigError, match="different numbers from 0 to 2"):
            choose_devices(wrong, "cuda")
