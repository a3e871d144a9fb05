"""Batches of calls on a device: the runner stands still while their inputs are placed and answers taken.

The judge's clock runs from the moment at which the runner may go to that at which the answers are in the
judge's own memory: what the device still works then is part of the time, and what is worked later is
part of no answer.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import torch

from search.judging.cpu.timing import CpuPinning
from search.judging.cpu.turns import Turns
from search.judging.cuda.memory import CudaArena, DeviceRegion, end_of, tensor_at
from search.judging.cuda.runner import (
    BETWEEN,
    COUNT,
    FLUSHES,
    HOST,
    MOST_CALLS,
    RELEASE,
    TAKEN,
    TIMES,
    TOLD,
)
from search.judging.cuda.worker import CudaWorker
from search.sandbox.faults import forged
from search.sandbox.shared_memory import DONE, EMPTY, poison

ANYWHERE = CpuPinning(stage=0, seat=1)  # a device is shared by time, not by processor


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What came of some calls made one after the other.

    Attributes:
        device: seconds of each call, as the runner's events say.
        wall: seconds of the whole batch by the judge's clock, caches' emptying and copies included.
        host: seconds of enqueueing all of it, as the runner says.
        fill: seconds of putting the inputs of one call in place, while the runner stood still.
        between: seconds from the end of a call to the start of the next, in the mean, as the runner's events say.
        told: what the runner says of an answer.
    """

    device: tuple[float, ...]
    wall: float
    host: float
    fill: float = 0.0
    between: float = 0.0
    told: dict[str, Any] | None = None

    @property
    def total(self) -> float:
        """Seconds of all calls together."""
        return sum(self.device)


def told_times(values: Sequence[float]) -> tuple[float, ...]:
    """Return the times that a runner tells, where they are times at all.

    Raises:
        Fault: one is negative, infinite or not a number; comparisons would let the last pass.
    """
    if not all(0 <= value < inf for value in values):
        raise forged(f"a call that took {next(v for v in values if not 0 <= v < inf)} s")
    return tuple(values)


class Mirror:
    """The judge's own copy of the answers of a batch, taken in one piece as soon as it is over.

    Args:
        layout: from `plan`.
    """

    def __init__(self, layout: Mapping[str, Any]) -> None:
        slots = [slot for row in layout["results"] for slot in row]
        self._start = min(slot["offset"] for slot in slots)
        self._ends = [end_of(row[-1]) for row in layout["results"]]
        self._slots = layout["results"]
        self.make()

    def make(self) -> None:
        """Take memory for it."""
        self._flat = torch.empty(self._ends[-1] - self._start, dtype=torch.uint8, device="cuda")
        self.results = tuple(
            tuple(
                tensor_at(self._flat, {**slot, "offset": slot["offset"] - self._start})
                for slot in row
            )
            for row in self._slots
        )

    def drop(self) -> None:
        """Give its memory to what is needed before there are answers again, see `make`."""
        self.results = ()
        vars(self).pop("_flat", None)

    def take(self, region: DeviceRegion, calls: int) -> None:
        """Copy the answers of so many calls, and wait until they are here."""
        end = self._ends[calls - 1]
        self._flat[: end - self._start].copy_(region.bytes()[self._start : end])
        torch.cuda.synchronize()


class Batches(Turns):
    """Runs batches of one program.

    Args:
        region: the device memory that the runner shares.
        mirror: where answers are copied to.
        seconds: that one batch may take.

    Attributes:
        scarce: a batch has one call, and programs share memory, because the device has too little.
    """

    only_processor = False  # a device may work while the judge waits for its own processor

    def __init__(
        self,
        arena: CudaArena,
        worker: CudaWorker,
        region: DeviceRegion,
        mirror: Mirror,
        *,
        seconds: float,
        trusted: bool,
    ) -> None:
        super().__init__(arena, worker, ANYWHERE, seconds=seconds, trusted=trusted)
        self._device_arena, self._device_worker = arena, worker
        self._region, self._mirror = region, mirror
        self._times = arena.words[TIMES : TIMES + MOST_CALLS].cast("B").cast("d")
        self._usual = seconds
        self.scarce = len(arena.sets) == 1
        self.compiles = False  # whether it may have kernels compiled in the middle of a batch

    def begin(self) -> None:
        """Put the runner into its loop."""
        words = self._arena.words
        words[TOLD] = words[TAKEN] = words[RELEASE] = 0
        self._begin({})

    def run(
        self,
        calls: int,
        flushes: int,
        fill: Iterable[Sequence[Any]] | None = None,
        *,
        state: Mapping[str, torch.Tensor] | None = None,
        empty: int = False,
        seconds: float | None = None,
    ) -> Batch:
        """Time `calls` calls.

        Args:
            flushes: how often the caches are emptied before each.
            fill: the calls' inputs, made while the runner stands still; None for what is in place.
            state: parameters, where they are changed for each batch.
            empty: do everything but the calls; `SMALLEST` starts the smallest kernel in place of each.
            seconds: that the batch may take, None for what any may.
        """
        words = self._arena.words
        self._seconds = seconds or self._usual
        words[COUNT], words[EMPTY], words[FLUSHES] = calls, int(empty), flushes
        # After a question, or a timed batch, whose warm-up takes the memory again: others are to have it meanwhile.
        words[RELEASE] = int(self.scarce and (fill is not None or bool(empty)))
        self._device_worker.allow(self._seconds)
        self._let_go()  # before it is ready a runner takes memory for its answer
        self._ready()
        filled = self.put(calls, fill, state)
        self._require_still()
        start = time.perf_counter_ns()
        self._go()
        self._await(DONE)
        # The signal first: the copy waits for what the device was given before.
        self._worker.child.signal(signal.SIGSTOP)
        self._mirror.take(self._region, calls)
        wall = (time.perf_counter_ns() - start) / 1e9
        self._stop()
        words[TAKEN] = self._call
        self._worker.resume()
        self._await(TOLD)
        told = None if empty else self._worker.answer(self._seconds)
        self._stop()
        return Batch(
            device=told_times(self._times[:calls].tolist()),
            wall=wall,
            host=words[HOST] / 1e9,
            fill=filled / calls,
            between=words[BETWEEN] / 1e9,
            told=told,
        )

    def put(
        self,
        calls: int,
        fill: Iterable[Sequence[Any]] | None,
        state: Mapping[str, torch.Tensor] | None = None,
    ) -> float:
        """Put inputs in place and what no answer holds where they go; return the seconds that it took."""
        if self.scarce:
            self._mirror.drop()  # its last answers were looked at: a draw of inputs takes its room
            self._let_go()
        began = time.perf_counter()
        values: Sequence[Any] = ()
        # The inputs first: who draws them is told that they are placed, and lets go of them.
        for values, number in zip(fill or (), range(calls), strict=False):
            for slot, value in zip(self._device_arena.sets[number], values, strict=True):
                if isinstance(slot, torch.Tensor):
                    slot.copy_(value)
        value = values = ()
        for name, value in (state or {}).items():
            self._arena.state[name].copy_(value)
        for _ in range(2):  # the second time to see what the device does besides
            for row in self._device_arena.results[:calls]:
                for slot in row:
                    poison(slot)
            torch.cuda.synchronize()
        spent = time.perf_counter() - began
        self._let_go()
        if self.scarce:
            self._mirror.make()
        return spent

    def _let_go(self) -> None:
        """Give back what comparing or making inputs took, where memory is scarce: it is the runner's turn."""
        if self.scarce:
            torch.cuda.empty_cache()

    def take(self, calls: int) -> None:
        """Copy the answers of so many calls."""
        self._mirror.take(self._region, calls)

    def settle(self, seconds: float) -> None:
        """Let the runner run for some seconds, whatever it does."""
        self._worker.resume()
        time.sleep(seconds)
        self._stop()
        torch.cuda.synchronize()

    def _attend(self, end: float) -> float:
        return self._device_worker.attend(end, self._seconds) if self.compiles else end
