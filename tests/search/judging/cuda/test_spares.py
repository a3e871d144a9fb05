"""Which runners wait for candidates, and for what a measurement waits; no device is needed."""

from typing import Any, cast

import pytest

from kb.errors import ToolchainError
from search.judging.cuda.spares import SpareRunners
from search.judging.cuda.worker import hardware_queues, makes_streams
from search.outcome import Crashed
from search.sandbox.faults import Fault


class Process:
    """Stands for a runner; `dies`: before its context is made."""

    def __init__(self, *, dies: bool, several_streams: bool) -> None:
        self.dies, self.lives, self.begun, self.warm = dies, True, False, False
        self.several_streams = several_streams

    def alive(self) -> bool:
        return self.lives

    def ready(self) -> None:
        assert self.begun, "its context would never be made"
        if self.dies:
            raise Fault(Crashed(reason="it has died"))
        self.warm = True

    def close(self) -> None:
        self.lives = False


class Starts:
    """Starts processes of which those in `dying` do not live long, and counts how often the dead were waited for."""

    def __init__(self, *dying: int) -> None:
        self.dying, self.made, self.reaped = dying, list[Process](), 0

    def start(self, several_streams: bool) -> Any:
        self.made.append(Process(dies=len(self.made) in self.dying, several_streams=several_streams))
        return self.made[-1]

    def begin(self, process: Any) -> None:
        process.begun = True

    def reap(self) -> None:
        self.reaped += 1

    def spares(self) -> SpareRunners:
        return SpareRunners(self.start, self.begin, cast("Any", self))


def test_the_first_that_was_started_is_taken() -> None:
    starts = Starts()
    waiting = starts.spares()
    waiting.ahead(2)
    waiting.ahead(2)
    assert len(starts.made) == 2
    assert cast("Any", waiting.take()) is starts.made[0]
    assert [one.warm for one in starts.made] == [True, False]
    assert not starts.reaped
    waiting.ahead(1)
    assert len(starts.made) == 2


def test_a_measurement_waits_for_all_and_one_that_died_is_replaced_when_it_is_needed() -> None:
    starts = Starts(1)
    waiting = starts.spares()
    waiting.ahead(2)
    waiting.rest()
    assert [one.warm for one in starts.made] == [True, False]
    assert [one.lives for one in starts.made] == [True, False]
    assert starts.reaped == 1
    assert cast("Any", waiting.take()) is starts.made[0]
    assert cast("Any", waiting.take()) is starts.made[2]


def test_what_starts_beside_a_measurement_makes_its_context_after_it() -> None:
    starts = Starts()
    waiting = starts.spares()
    waiting.ahead(1)
    waiting.rest()
    waiting.start()
    waiting.start()
    assert [one.begun for one in starts.made] == [True, False]
    waiting.rest()
    assert [one.warm for one in starts.made] == [True, False], "no measurement waits for it"
    waiting.ahead(2)
    assert [one.begun for one in starts.made] == [True, True]
    assert cast("Any", waiting.take()) is starts.made[0]
    assert cast("Any", waiting.take()) is starts.made[1]
    assert len(starts.made) == 2


def test_one_for_several_streams_is_started_when_it_is_needed() -> None:
    starts = Starts(1)
    waiting = starts.spares()
    waiting.ahead(1)
    assert cast("Any", waiting.take(several_streams=True)) is starts.made[2], "the first one died"
    assert [one.several_streams for one in starts.made] == [False, True, True]
    assert cast("Any", waiting.take()) is starts.made[3], "what waited was ended: it holds memory"
    assert not starts.made[3].several_streams


@pytest.mark.parametrize(
    ("source", "streams"),
    [
        ("side = torch.cuda.Stream()", True),
        ("make = torch.Stream", True),
        ("cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);", True),
        ("auto side = c10::cuda::getStreamFromPool();", True),
        ("self.layers = nn.LSTM(64, 64)", True),
        ("kernel<<<grid, block, 0, at::cuda::getCurrentCUDAStream()>>>(x);", False),
        ("launch(stream=torch.cuda.current_stream().cuda_stream)", False),
    ],
)
def test_who_may_use_several_streams_is_seen_in_the_source(source: str, streams: bool) -> None:
    assert makes_streams(source) is streams
    assert bool(hardware_queues(several_streams=streams)) is not streams


def test_none_is_given_away_that_died_while_it_waited() -> None:
    starts = Starts()
    waiting = starts.spares()
    waiting.ahead(2)
    waiting.rest()
    for one in starts.made:
        one.lives = False
    assert cast("Any", waiting.take()) is starts.made[2]


def test_one_that_started_and_died_costs_no_attempt() -> None:
    starts = Starts(1)
    waiting = starts.spares()
    waiting.start()
    starts.made[0].lives = False  # its zygote has died
    assert cast("Any", waiting.take()) is starts.made[2]
    assert starts.made[2].warm


def test_where_all_that_wait_cannot_start_a_fresh_one_is_tried() -> None:
    starts = Starts(0, 1)
    waiting = starts.spares()
    waiting.ahead(2)
    assert cast("Any", waiting.take()) is starts.made[2]
    assert [one.lives for one in starts.made] == [False, False, True]


def test_two_in_a_row_that_cannot_start_are_a_fault_of_the_machine() -> None:
    starts = Starts(0, 1)
    with pytest.raises(ToolchainError, match="cannot start CUDA"):
        starts.spares().take()
    assert not any(one.lives for one in starts.made)


def test_what_waits_is_ended_and_gone() -> None:
    starts = Starts()
    waiting = starts.spares()
    waiting.ahead(2)
    waiting.start()
    waiting.close()
    assert [one.lives for one in starts.made] == [False] * 3
    assert starts.reaped == 1
