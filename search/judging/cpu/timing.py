"""Times a candidate against the framework: cold caches, fresh values, one core, interleaved."""

from __future__ import annotations

import gc
import math
import os
import resource
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from filelock import FileLock

from kb.runtime.cpp import cache_folder
from search.outcome import Ratio

_WARM_UPS = 2
_STRETCH, _PATIENCE = 4, 2.5  # how far a disturbed block, and a session, may be drawn out
_SHORT = 0.25  # seconds of one round
_MOST_EVICTED = 256 << 20
_REST = 0.001  # seconds


class Sample(NamedTuple):
    """One timed call: whether it kept its core to itself tells how much it is worth."""

    seconds: float
    outputs: tuple[torch.Tensor, ...]
    undisturbed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """What came out of one session.

    Attributes:
        seconds: by contender, the least sample.
        samples: calls of each contender that counted.
        speedup: by baseline, of the candidate over it.
        calls: by contender, what was timed, as `search.outcome.Passed` keeps it.
    """

    seconds: Mapping[str, float]
    samples: int
    speedup: Mapping[str, Ratio]
    calls: Mapping[str, tuple[float, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuPinning:
    """Processors of one session.

    Every contender runs on `stage`, one after the other, so that all meet the same core, caches and
    neighbours; the judge watches from `seat`.
    """

    stage: int
    seat: int

    @property
    def shared(self) -> bool:
        """Both are one processor: the judge must let go of it while it waits."""
        return self.stage == self.seat


def choose_seats() -> CpuPinning:
    """Pick two processors that do not share a core, where there are two."""
    allowed = sorted(os.sched_getaffinity(0))
    stage = allowed[-1]
    siblings = _cpu_list(f"/sys/devices/system/cpu/cpu{stage}/topology/thread_siblings_list")
    apart = [cpu for cpu in allowed if cpu not in siblings and cpu != stage]
    others = apart or [cpu for cpu in allowed if cpu != stage]
    near = _cpu_list(f"/sys/devices/system/cpu/cpu{stage}/cache/index3/shared_cpu_list")
    close = [cpu for cpu in others if cpu in near]
    return CpuPinning(stage=stage, seat=(close or others or [stage])[-1])


@contextmanager
def taken(seats: CpuPinning) -> Iterator[None]:
    """Wait until no other judge of this user times on these processors, and keep them."""
    with turn(f"stage-{seats.stage}"):
        yield


@contextmanager
def turn(name: str) -> Iterator[None]:
    """Wait until no other judge of this user times on what is called `name`, and keep it."""
    folder = cache_folder().parent
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / f"{name}.lock"):
        yield


def _cpu_list(path: str) -> set[int]:
    try:
        text = Path(path).read_text().strip()
    except OSError:
        return set()
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


@contextmanager
def one_thread() -> Iterator[None]:
    """Run torch on one thread of this process, without collections, on processors that are put back."""
    threads, places, collecting = torch.get_num_threads(), os.sched_getaffinity(0), gc.isenabled()
    torch.set_num_threads(1)
    gc.disable()
    try:
        with torch.no_grad():
            yield
    finally:
        torch.set_num_threads(threads)
        os.sched_setaffinity(0, places)
        if collecting:
            gc.enable()


class Evictor:
    """Empties the caches of the core that it is called on.

    Args:
        cache_bytes: size of the last level; twice that is read, up to 256 MiB.
    """

    def __init__(self, cache_bytes: int) -> None:
        size = min(2 * max(cache_bytes, 4 << 20), _MOST_EVICTED)
        self._buffer = torch.ones(size // 4)

    def __call__(self) -> None:
        """Read more than the caches hold."""
        # A read allocates a line everywhere; large writes may pass the caches by.
        self._buffer.sum()


def local(call: Callable[..., Any], inputs: Sequence[Any]) -> Sample:
    """Time one call in this process."""
    # A runner starts its call well rested; this process has just used its share of the core up, and
    # would be the first to lose it to a neighbour.
    time.sleep(_REST)
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw
    start = time.perf_counter_ns()
    result = call(*inputs)
    end = time.perf_counter_ns()
    after = resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw
    outputs = (result,) if isinstance(result, torch.Tensor) else tuple(result)
    return Sample((end - start) / 1e9, outputs, before == after)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingSession:
    """One timing session.

    Attributes:
        contenders: name -> times one call on the inputs in place; "candidate" among them.
        refresh: puts new inputs in place, before each round.
        check: is shown each round's outputs by contender; raises where they are wrong.
        prepare: empties the caches, before each call.
        blocks: how many ratios are taken; their median counts.
        seconds: that the session may take, about.
    """

    contenders: Mapping[str, Callable[[], Sample]]
    refresh: Callable[[], None]
    check: Callable[[Mapping[str, Sample]], None]
    prepare: Callable[[], None]
    blocks: int
    seconds: float
    most_rounds: int = 50

    def run(self) -> Timing:
        """Interleave the contenders in rotating order and compare them block by block."""
        names = list(self.contenders)
        began = time.monotonic()
        for turn in range(_WARM_UPS):
            once = time.monotonic()
            self._round(names, turn)
            if time.monotonic() - once > self.seconds / self.blocks:
                break
        one = max(time.monotonic() - once, 1e-6)
        left = self.seconds - (time.monotonic() - began)
        # Less than three samples a block would let a neighbour's burst pass for a slow contender.
        fewest = 3 if one < _SHORT else 1
        rounds = max(fewest, min(self.most_rounds, int(left / self.blocks / one)))
        end = began + _PATIENCE * self.seconds
        taken = [self._block(names, block, rounds, end) for block in range(self.blocks)]
        least = {name: [min(block[name]) for block in taken] for name in names}
        ratios = {
            name: [base / mine for base, mine in zip(least[name], least["candidate"], strict=True)]
            for name in names
            if name != "candidate"
        }
        return Timing(
            seconds={name: min(values) for name, values in least.items()},
            samples=sum(len(block["candidate"]) for block in taken),
            speedup={name: interval(values) for name, values in ratios.items()},
            calls={name: brief(one for block in taken for one in block[name]) for name in names},
        )

    def _block(
        self, names: list[str], block: int, rounds: int, end: float
    ) -> dict[str, list[float]]:
        """Take at least `rounds` samples of each, and go on while one was disturbed in all of its own.

        A sample in which another process took the core is kept, for it may be all there is, but the
        least of a block should not be one. Nothing is subtracted: a candidate's own second thread
        would disturb it too.
        """
        taken: dict[str, list[float]] = {name: [] for name in names}
        waiting = set(names)
        turn = 0
        while turn < rounds or (waiting and turn < _STRETCH * rounds and time.monotonic() < end):
            for name, sample in self._round(names, block + turn).items():
                taken[name].append(sample.seconds)
                if sample.undisturbed:
                    waiting.discard(name)
            turn += 1
        return taken

    def _round(self, names: list[str], turn: int) -> dict[str, Sample]:
        self.refresh()
        samples: dict[str, Sample] = {}
        shift = turn % len(names)
        for name in names[shift:] + names[:shift]:
            self.prepare()
            samples[name] = self.contenders[name]()
        self.check(samples)
        return {name: sample._replace(outputs=()) for name, sample in samples.items()}


def brief(seconds: Iterable[float]) -> tuple[float, ...]:
    """Return times with the four digits that a look at them needs."""
    return tuple(float(f"{one:.4g}") for one in seconds)


def interval(ratios: Sequence[float], confidence: float = 0.95) -> Ratio:
    """Return the median with an interval that holds it with at least `confidence`.

    The interval runs between two order statistics, whatever the distribution (David, Nagaraja, Order
    Statistics, 2003, section 7.1). Fewer than six ratios cannot reach 95 %: the interval is then
    from the least to the greatest and carries the confidence that it has.
    """
    ordered = sorted(ratios)
    count = len(ordered)
    cut, covered = 1, 1 - 2 * 0.5**count
    for rank in range(2, count // 2 + 1):
        tail = sum(math.comb(count, k) for k in range(rank)) / 2**count
        if 1 - 2 * tail < confidence:
            break
        cut, covered = rank, 1 - 2 * tail
    return Ratio(
        ratio=statistics.median(ordered),
        low=ordered[cut - 1],
        high=ordered[count - cut],
        confidence=round(max(covered, 0.0), 4),
    )
