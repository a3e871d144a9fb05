"""Times a candidate against the framework: cold caches, fresh values, one core, interleaved."""

from __future__ import annotations

import gc
import math
import os
import random
import resource
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import torch
from filelock import FileLock

from kb.runtime.cpp import cache_folder
from search.judging.cpu.standstill import wake_soon
from search.judging.trial import InputTrial
from search.outcome import Ratio

_WARM_UPS = 2
_STRETCH, _PATIENCE = 4, 2.5  # how far a disturbed block, and a session, may be drawn out
_SHORT = 0.25  # seconds of one round
_MOST_EVICTED = 256 << 20
_REST = 0.001  # seconds
_AUDITED = 0.1  # of the rounds of a session
_chance = random.SystemRandom()
T = TypeVar("T", float, tuple[float, bool])


class Sample(NamedTuple):
    """One timed call: whether it kept its core to itself, and was seen to end at once, tells how much it is worth."""

    seconds: float
    outputs: tuple[torch.Tensor, ...]
    undisturbed: bool
    seen: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """What a timed call is given.

    Attributes:
        state: parameters, None where they stay as they are.
        trial: of the same distribution, whose bounds the answer must keep.
        audit: it is not of the task's own distribution, and no part of the figures.
    """

    inputs: tuple[Any, ...]
    state: Mapping[str, torch.Tensor] | None
    trial: InputTrial
    audit: bool


class Contender(Protocol):
    """Times calls of one program."""

    def place(self, drawn: Drawn) -> None:
        """Put the inputs of the next call in place."""
        ...

    def sample(self) -> Sample:
        """Time one call on them."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """What came out of one session.

    Attributes:
        seconds: by contender, the middle one of the blocks' low samples, see `low`.
        samples: calls of each contender that counted.
        speedup: by baseline, of the candidate over it.
        calls: by contender, what was timed, as `search.outcome.Passed` keeps it.
        seen: share of the blocks whose low sample was seen to end at once, of the contender with the least.
    """

    seconds: Mapping[str, float]
    samples: int
    speedup: Mapping[str, Ratio]
    calls: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    seen: float = 1.0


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
    """Run torch on one thread of this process, without collections, on processors that are put back.

    The thread gets its processor soon after it wakes: it holds the clock.
    """
    threads, places, collecting = torch.get_num_threads(), os.sched_getaffinity(0), gc.isenabled()
    torch.set_num_threads(1)
    gc.disable()
    wake_soon(0)
    try:
        with torch.no_grad():
            yield
    finally:
        wake_soon(0, 0)
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


class Local:
    """Times calls in this process, where no other can hold the program."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call
        self._inputs: tuple[Any, ...] = ()

    def place(self, drawn: Drawn) -> None:
        """Take the inputs of the next call."""
        self._inputs = drawn.inputs

    def sample(self) -> Sample:
        """Time one call."""
        # A runner starts its call well rested; this process has just used its share of the core up, and
        # would be the first to lose it to a neighbour.
        time.sleep(_REST)
        before = resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw
        start = time.perf_counter_ns()
        result = self._call(*self._inputs)
        end = time.perf_counter_ns()
        after = resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw
        outputs = (result,) if isinstance(result, torch.Tensor) else tuple(result)
        return Sample((end - start) / 1e9, outputs, before == after)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingSession:
    """One timing session.

    Attributes:
        contenders: by name; "candidate" among them.
        draw: makes the inputs of a round, before each; is told whether the round is audited.
        check: is shown each round's inputs and its outputs by contender; raises where they are wrong.
        prepare: empties the caches, before each call, when the inputs are in place.
        blocks: how many ratios are taken; their median counts.
        seconds: that the session may take, about.
        audits: the fewest rounds that are audited, at moments that nobody can foresee; 0 for none at all.
            They are no part of the figures, and are made as all others are.
    """

    contenders: Mapping[str, Contender]
    draw: Callable[[bool], Drawn]
    check: Callable[[Drawn, Mapping[str, Sample]], None]
    prepare: Callable[[], None]
    blocks: int
    seconds: float
    audits: int
    most_rounds: int = 50

    def run(self, *, whole: bool = False) -> Timing:
        """Interleave the contenders in rotating order and compare them block by block.

        Args:
            whole: use all of the seconds. Where short calls leave some, rounds that do not count follow: a
                program may begin to cheat late.
        """
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
        planned = int(self._counting(left / one) / self.blocks)
        rounds = max(fewest, min(self.most_rounds, planned))
        end = began + _PATIENCE * self.seconds
        due = self._due(rounds)
        blocks = [self._block(names, block, rounds, end, due) for block in range(self.blocks)]
        taken = [
            {name: [(one.seconds, one.seen) for one in block[name]] for name in names}
            for block in blocks
        ]
        if whole:
            self.audit(lambda: False, self.seconds - (time.monotonic() - began))
        lows = {name: [low(block[name], rounds) for block in taken] for name in names}
        least = {name: [seconds for seconds, _ in found] for name, found in lows.items()}
        ratios = {
            name: [base / mine for base, mine in zip(least[name], least["candidate"], strict=True)]
            for name in names
            if name != "candidate"
        }
        return Timing(
            seconds={name: statistics.median(values) for name, values in least.items()},
            samples=sum(len(block["candidate"]) for block in taken),
            speedup={name: interval(values) for name, values in ratios.items()},
            calls={name: brief(one for block in taken for one, _ in block[name]) for name in names},
            seen=min(statistics.mean(seen for _, seen in found) for found in lows.values()),
        )

    def audit(self, enough: Callable[[], bool], seconds: float) -> None:
        """Go on with rounds that do not count until `enough`, for some seconds at most.

        Half of them are no audits: their inputs would tell a program that it is no longer timed.
        """
        end, turn = time.monotonic() + seconds, 0
        while time.monotonic() < end and not enough():
            self._round(list(self.contenders), turn, audit=_chance.random() < 0.5)
            turn += 1

    def _counting(self, rounds: float) -> float:
        """Return how many of so many rounds are no audits."""
        if not self.audits:
            return rounds
        return min(rounds / (1 + _AUDITED), rounds - self.audits)

    def _due(self, rounds: int) -> Counter[tuple[int, int]]:
        """Return how many audits come before each (block, round)."""
        if not self.audits:
            return Counter()
        total = rounds * self.blocks
        count = max(self.audits, round(_AUDITED * total))
        # One in each part of the session: a program may begin to cheat late.
        places = (int((part + _chance.random()) * total / count) for part in range(count))
        return Counter(divmod(min(place, total - 1), rounds) for place in places)

    def _block(
        self, names: list[str], block: int, rounds: int, end: float, due: Counter[tuple[int, int]]
    ) -> dict[str, list[Sample]]:
        """Take at least `rounds` samples of each, and go on while one was disturbed in all of its own.

        A sample in which another process took the core is kept, for it may be all there is, but the
        least of a block should not be one. Nothing is subtracted: a candidate's own second thread
        would disturb it too.
        """
        taken: dict[str, list[Sample]] = {name: [] for name in names}
        waiting = set(names)
        turn = 0
        while turn < rounds or (waiting and turn < _STRETCH * rounds and time.monotonic() < end):
            beyond = self.audits and turn >= rounds and _chance.random() < _AUDITED
            for _ in range(due[block, turn] + beyond):
                self._round(names, block + turn, audit=True)
            for name, sample in self._round(names, block + turn).items():
                taken[name].append(sample)
                if sample.undisturbed and sample.seen:
                    waiting.discard(name)
            turn += 1
        return taken

    def _round(self, names: list[str], turn: int, *, audit: bool = False) -> dict[str, Sample]:
        drawn = self.draw(audit)
        samples: dict[str, Sample] = {}
        shift = turn % len(names)
        for name in names[shift:] + names[:shift]:
            self.contenders[name].place(drawn)
            self.prepare()
            samples[name] = self.contenders[name].sample()
        self.check(drawn, samples)
        return {name: sample._replace(outputs=()) for name, sample in samples.items()}


def brief(seconds: Iterable[float]) -> tuple[float, ...]:
    """Return times with the four digits that a look at them needs."""
    return tuple(float(f"{one:.4g}") for one in seconds)


def low(samples: Sequence[T], rounds: int) -> T:
    """Return a block's time: as many samples are lower as are a quarter of `rounds`, none where those are few.

    The least of many would count one fast call in a block, and a program need be fast in no other: it is
    less likely to be audited in so few. What was taken beyond the planned rounds, because the machine was
    busy, does not count for the quarter.
    """
    return sorted(samples)[(rounds - 1) // 4]


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
