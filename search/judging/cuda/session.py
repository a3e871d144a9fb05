"""One candidate before the judge, on a GPU: questioned as on a processor, timed in batches."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import torch

from search.judging.checks import cached, equal, near, told
from search.judging.cpu.session import CandidateSession
from search.judging.cpu.timing import CpuPinning
from search.judging.cuda.memory import CudaArena
from search.judging.cuda.runner import COUNT, EMPTY, FLUSHES, HOST, MOST_CALLS, TIMES, TOLD
from search.judging.cuda.worker import CudaWorker
from search.judging.tolerance import TrialSet
from search.outcome import Refused
from search.reference import Problem
from search.sandbox.faults import Fault, forged, raised, wrong
from search.sandbox.shared_memory import DONE, GO, PREPARE, READY

_SETTLE = 0.05  # seconds that work after the clock is given to show itself
_CHECKED = 4  # answers of a batch that are looked at, besides those of the first batch: all
_ANYWHERE = CpuPinning(stage=0, seat=1)  # a device is shared by time, not by processor


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What came of some calls made one after the other.

    Attributes:
        device: seconds of each call, as the runner's events say.
        wall: seconds of the whole batch by the judge's clock, caches' emptying and copies included.
        host: seconds of enqueueing all of it, as the runner says.
    """

    device: tuple[float, ...]
    wall: float
    host: float

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


class Draws:
    """Makes the inputs of timed calls: new values each time, and the same again when asked.

    Args:
        bases: what ``get_inputs()`` gave, on the device; kept where no candidate reaches.
    """

    def __init__(self, bases: Sequence[tuple[Any, ...]]) -> None:
        self._bases = bases

    def make(self, session: int, number: int) -> tuple[Any, ...]:
        """Return inputs `number` of `session`.

        Every floating-point element is scaled by its own factor between 0.8 and 1: signs, zeros and
        bounds stay, the values do not, and no error can be greater than on the values drawn. Where
        there are none, one of several draws is taken.
        """
        seed = session * MOST_CALLS + number
        base = self._bases[seed % len(self._bases)]
        generator: torch.Generator | None = None
        made = []
        for value in base:
            if not isinstance(value, torch.Tensor) or not value.is_floating_point():
                made.append(value)
                continue
            generator = generator or torch.Generator("cuda").manual_seed(seed)
            factor = torch.empty_like(value).uniform_(0.8, 1.0, generator=generator)
            made.append(factor.mul_(value))
        return tuple(made)


class CudaCandidateSession(CandidateSession):
    """Holds a runner with one candidate, or with a baseline.

    Args:
        seconds: that one call, or one batch of timed calls, may take.
    """

    def __init__(
        self,
        problem: Problem,
        bank: TrialSet,
        arena: CudaArena,
        worker: CudaWorker,
        *,
        seconds: float,
    ) -> None:
        super().__init__(problem, bank, arena, worker, _ANYWHERE, seconds=seconds)
        self._cuda_arena = arena
        self._times = arena.words[TIMES : TIMES + MOST_CALLS].cast("B").cast("d")

    def load(
        self, source: str, prebuilt: Mapping[str, str], layout: dict[str, Any], seconds: float
    ) -> None:
        """Import the candidate, construct its model and hand it the parameters."""
        for name, value in self._problem.state.items():
            self._arena.state[name].copy_(value)
        torch.cuda.synchronize()
        super().load(source, prebuilt, layout, seconds)

    def place(self, inputs: Sequence[Any]) -> None:
        """Put the inputs of the next call in place; the other process sees them."""
        super().place(inputs)
        torch.cuda.synchronize()

    def _poison(self) -> None:
        super()._poison()
        torch.cuda.synchronize()

    def memory(self) -> int:
        """Return the most bytes that one call allocates, as its process says."""
        answer = self._worker.ask({"op": "memory"}, self._seconds)
        if "raised" in answer:
            raise Fault(raised(told(answer), "forward"))
        peak = answer.get("peak")
        return peak if isinstance(peak, int) and peak >= 0 else 0

    def compile(self, seconds: float) -> str | None:
        """Put ``torch.compile`` before the model; return why not, where it does not work."""
        answer = self._worker.ask({"op": "baseline"}, seconds)
        if "raised" not in answer:
            return None
        message = str(told(answer).get("message"))
        return (message.strip().splitlines() or ["it raised"])[0][:300]

    def start_timing(self) -> None:
        """Put the runner into its timed loop."""
        self._worker.tell({"op": "time"})
        self._timing = True

    def batch(self, calls: int, flushes: int, *, empty: bool = False) -> Batch:
        """Time `calls` calls on the first inputs in place.

        Args:
            flushes: how often the caches are emptied before each.
            empty: do everything but the calls.
        """
        words, self._call = self._arena.words, self._call + 1
        words[COUNT], words[EMPTY], words[FLUSHES] = calls, int(empty), flushes
        words[PREPARE] = self._call
        self._await(READY)
        start = time.perf_counter_ns()
        words[GO] = self._call
        self._await(DONE)
        wall = (time.perf_counter_ns() - start) / 1e9
        self._await(TOLD)
        times = told_times(self._times[:calls].tolist())
        return Batch(device=times, wall=wall, host=words[HOST] / 1e9)

    def refill(self, draws: Draws, session: int, calls: int) -> None:
        """Put new inputs in place for `calls` calls, and poison their answers."""
        for number in range(calls):
            for slot, value in zip(
                self._cuda_arena.sets[number], draws.make(session, number), strict=True
            ):
                if isinstance(slot, torch.Tensor):
                    slot.copy_(value)
            for slot in self._cuda_arena.results[number]:
                slot.fill_(float("nan"))
        torch.cuda.synchronize()

    def check_batch(self, draws: Draws, session: int, calls: int, *, every: bool) -> None:
        """Compare answers of the batch with the framework's on the same inputs.

        Raises:
            Fault: an answer is wrong, was kept from another call, or was finished after the clock.
        """
        numbers = list(range(calls))
        if not every and calls > _CHECKED:
            numbers = random.SystemRandom().sample(numbers, _CHECKED)
        for number in numbers:
            inputs = draws.make(session, number)
            self._arena.inputs = self._cuda_arena.sets[number]
            try:
                self._check_inputs(inputs)
            finally:
                self._arena.inputs = self._cuda_arena.sets[0]
            wanted = self._problem.run(*inputs)
            got = self._cuda_arena.results[number]
            if not near(got, wanted, self._bank):
                self._blame(number, got, wanted)

    def _blame(
        self, number: int, got: tuple[torch.Tensor, ...], wanted: tuple[torch.Tensor, ...]
    ) -> None:
        for other, values in enumerate(self._cuda_arena.results):
            if other != number and equal(got, values):
                raise cached("a timed call gave the answer to the inputs of another")
        difference = max(float((a - b).abs().max()) for a, b in zip(got, wanted, strict=True))
        time.sleep(_SETTLE)
        torch.cuda.synchronize()
        if near(got, wanted, self._bank):
            raise Fault(
                Refused(
                    reason="it says that it is done before it is: its answer was completed after the clock had stopped",
                    trick="work-after-the-clock",
                )
            )
        raise wrong(
            f"the answer of a timed call differs from the framework's by up to {difference:.3g}, although it passed "
            "the trials: does it keep state between calls, or work on a stream that nobody waits for?"
        )

    def profile(self, calls: int, flushes: int, *, whole: bool) -> Any:
        """Return what the profiler saw of `calls` calls, as the runner says: believe none of it unchecked.

        Args:
            whole: of a batch as it is timed, the emptying of the caches and the copies included.
        """
        message = {"op": "profile", "calls": calls, "flushes": flushes, "whole": whole}
        answer = self._worker.ask(message, self._seconds + 30)
        if "raised" in answer:
            raise Fault(raised(told(answer), "forward, under the profiler,"))
        return answer.get("timeline")
