"""Times a candidate against the framework on a device: batches on fresh inputs, interleaved.

A call is timed by events in the runner, between them nothing but the call; before it more is written
than the L2 holds. Nobody has to believe the events: what the batch takes by the judge's clock, less
what the same batch takes without its calls in a process that no candidate has touched, must be
what the events add up to. A batch's mean counts, never its least call, so that work moved from one
call to another is no gain.
"""

from __future__ import annotations

import math
import secrets
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from search.judging.cpu.timing import Timing, brief, interval
from search.judging.cuda.batches import Batch
from search.judging.cuda.gap import Gap
from search.outcome import Crashed, Refused
from search.sandbox.faults import Fault

_WARM_SECONDS = 0.05  # of work before the first block, for the clocks to rise
_FEWEST = 3
# A session has at least so many blocks; after them it ends once so many times its seconds have passed.
_ENOUGH, _LONGER = 12, 1.5
_WARM_CALLS = 2  # before each batch: the device has just served another process
# A baseline's call that takes longer is timed alone, after one that warms up, and no more blocks are taken than a search takes.
_SLOW, _FEW_BLOCKS = 0.25, 6
# Each timed answer of a candidate is checked by a call of the reference. Beside a slow one a batch has fewer calls, at least so
# many, so that checking takes no more than so many times what timing one contender does.
_CHECKED, _LEAST_CHECKED = 4.0, 8
# A batch has less than this share of the calls that fill its time, and a call could hide more than this share of itself in what
# the batch costs: all of that is charged.
_FEWER, _UNSEEN = 0.5, 0.02
# What the clocks may differ by without anybody lying: a share of the calls and of what is around them,
# what one batch costs to start and to be waited for, and what a kernel's start and end cost beside an
# empty pair of events. On an H200 58 of 60 honest kernels stayed below 2.7 us a call by their events.
_SHARE, _AROUND, _ONCE, _EACH = 0.05, 0.01, 60e-6, 3e-6
# The fifty-third forks and joins two streams, and the device changes over in 16 us a call that no event
# sees, on an H100 in more than 25: so much is charged, and no reason to refuse.
_CHARGED = 60e-6
# Starts of the smallest kernel, and the share of their time that counts: by it nobody honest is made slower.
_SMALLEST_CALLS, _SMALLEST_SHARE = 50, 0.9
# Emptying the caches may take so much less beside calls than without: hosts and memories are not always as fast.
_UNEVEN = 0.35


_AHEAD = (
    1.5  # the device is given so much longer to empty the caches than the host takes to enqueue
)
_MOST_FLUSHES = 16  # beyond them a call is slow because of its Python, and that is timed
_HOST_BOUND = 0.8  # of a batch's time spent in enqueueing it
# A device gives two programs that both have work turns of about 2 ms: beside a kernel that runs on, the
# inputs of a batch take that much longer.
_BUSY, _BUSY_SECONDS = 1.1, 0.3e-3


class CudaContender(Protocol):
    """A process that runs batches of one program."""

    def batch(self, calls: int, flushes: int, *, empty: bool = False, given: Any = None) -> Batch:
        """Time `calls` calls on what they are given, or on what is in place."""
        ...

    def smallest(self, calls: int) -> Batch:
        """Time `calls` starts of the smallest kernel."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How many calls a batch of one contender has, and how often the caches are emptied before each; `seconds` of a call."""

    calls: int
    flushes: int
    seconds: float = 0.0

    @property
    def slow(self) -> bool:
        """Whether one call takes so long that no more of them are timed in a row."""
        return self.seconds > _SLOW


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaTimingSession:
    """One timing session on a device.

    Attributes:
        rivals: name -> baseline; "eager" among them, which also runs the batches without calls.
        candidate: None where only the baselines are timed.
        draw: says what so many calls are given, anew for every contender and batch.
        check: is shown the candidate's batch and what it was given; raises where an answer is wrong.
        watch: looks at the device's clocks, while they are up.
        most: calls that a batch may have: so many sets of inputs are there.
        blocks: how many ratios are taken, fewer where that takes long; their median counts.
        seconds: that the session may take, about.
        flush_seconds: in which the caches are emptied once.
        resident: share of emptying them that a call may spare: beside a kernel that leaves memory alone
            what was written before is already gone from them, and its answer is copied out of them.
    """

    rivals: Mapping[str, CudaContender]
    candidate: CudaContender | None
    draw: Callable[[int], Any]
    check: Callable[[Batch, Any], None]
    watch: Callable[[], object]
    most: int
    blocks: int
    seconds: float
    flush_seconds: float
    resident: float

    def run(self) -> Timing:
        """Interleave the contenders in rotating order and compare them block by block."""
        contenders: dict[str, CudaContender] = dict(self.rivals)
        if self.candidate is not None:
            contenders["candidate"] = self.candidate
        share = self.seconds / self.blocks / len(contenders)
        paces = self._paces(contenders, share)
        quick = [name for name in self.rivals if not paces[name].slow]
        enough = _ENOUGH if len(quick) == len(self.rivals) else _FEW_BLOCKS
        walls: list[float] = []  # of a candidate's call
        means: dict[str, list[float]] = {name: [] for name in contenders}
        gaps: list[Gap] = []
        late: list[float] = []
        names = list(contenders)
        end = time.monotonic() + _LONGER * self.seconds
        for block in range(self.blocks):
            if block >= enough and time.monotonic() > end:
                break
            shift = block % len(names)
            seen: dict[str, Gap] = {}
            fills: dict[str, float] = {}
            for name in names[shift:] + names[:shift]:
                given = self.draw(paces[name].calls)
                batch = self._batch(contenders[name], name, paces[name], given)
                self.watch()
                means[name].append(batch.total / paces[name].calls)
                if name == "candidate":
                    self.check(batch, given)  # before another batch's answers are copied
                    walls.append(batch.wall / paces[name].calls)
                    timed = batch, paces[name], given
                else:
                    fills[name] = batch.fill
                if self.candidate is not None:
                    seen[name] = self._gap(batch, paces[name])
            if self.candidate is not None:
                gaps.append(seen["candidate"].less([seen[name] for name in quick]))
                late.append(self._late(*timed, fills))
        if late and often(late, _BUSY_SECONDS):
            raise _busy(statistics.median_high(late))
        calls = paces["candidate"].calls if gaps else 0
        if gaps:
            told, would = means["candidate"], share / statistics.median(walls)
            means["candidate"] = self._charged(told, gaps, calls, would)
        return self._compared(means, calls * len(gaps))

    def _compared(self, means: Mapping[str, list[float]], samples: int) -> Timing:
        """Compare the blocks' seconds of a call with the candidate's, or with eager's where there is none."""
        mine = means.get("candidate", means["eager"])
        return Timing(
            seconds={name: min(values) for name, values in means.items()},
            samples=samples,
            speedup={
                name: interval([base / own for base, own in zip(means[name], mine, strict=True)])
                for name in self.rivals
            },
            calls={name: brief(values) for name, values in means.items()},
        )

    def _paces(self, contenders: Mapping[str, CudaContender], share: float) -> dict[str, Pace]:
        """Return each contender's pace, a candidate's as far as its answers can be checked."""
        found = {
            name: self._pace(one, share, trusted=name in self.rivals)
            for name, one in contenders.items()
        }
        if "candidate" in found:
            found["candidate"] = self._checkable(found["candidate"], found["eager"], share)
        return found

    def _charged(self, told: list[float], gaps: list[Gap], calls: int, would: float) -> list[float]:
        """Return a call's seconds in each block: whatever the device did outside the events, the batch took it.

        Args:
            told: by its events.
            calls: of a batch.
            would: calls that fill a batch's time, as timed batches say: a candidate may be slow as long as it is not timed.
        """
        few = calls < _FEWER * min(self.most, would) and _ONCE / calls > _UNSEEN * min(told)
        hidden, least = self._hidden(gaps, few=few), self._least()
        return [max(one + more, least) for one, more in zip(told, hidden, strict=True)]

    def _batch(self, one: CudaContender, name: str, pace: Pace, given: Any) -> Batch:
        try:
            one.batch(min(_WARM_CALLS, pace.calls), pace.flushes)
            if self.most == 1 and name == "candidate" and secrets.randbits(1):
                # A runner keeps one answer while it makes the next: without this, each timed one would lie in the same
                # place, which may be fast memory or slow.
                one.batch(1, pace.flushes)
            # After the warm-up, so that no timed call is given inputs that were seen before.
            return one.batch(pace.calls, pace.flushes, given=given)
        except Fault as fault:
            if name == "candidate":
                raise
            said = getattr(fault.outcome, "reason", fault.outcome.kind)
            reason = (
                f"{name}, which is timed beside it, ended ({said}): is the device's memory used up?"
            )
            raise Fault(Crashed(reason=reason)) from fault

    def _late(self, batch: Batch, pace: Pace, given: Any, fills: Mapping[str, float]) -> float:
        """Return by how many seconds the candidate's inputs took longer to put in place than they should.

        A batch of many calls may take longer for each of them, and so may some inputs: before anyone is
        suspected, as many of the same are put in place beside eager.

        Args:
            fills: seconds a call, by baseline.
        """
        beyond = (batch.fill - _BUSY * max(fills.values())) * pace.calls
        if beyond <= _BUSY_SECONDS:
            return beyond
        base = self.rivals["eager"].batch(pace.calls, pace.flushes, empty=True, given=given)
        return (batch.fill - _BUSY * base.fill) * pace.calls

    def _pace(self, one: CudaContender, share: float, *, trusted: bool) -> Pace:
        """Warm a contender up; return how many calls fill `share` seconds.

        Args:
            trusted: where it is slow, single calls are timed. A candidate could be slow here, and never again.
        """
        few = min(_WARM_CALLS, self.most)
        end = time.monotonic() + _WARM_SECONDS
        if trusted and (seconds := self._slow_call(one)):
            return Pace(calls=1, flushes=1, seconds=seconds)
        batch = one.batch(few, 1, given=self.draw(few))
        while time.monotonic() < end:
            batch = one.batch(few, 1)
        ahead = _AHEAD * batch.host / few / self.flush_seconds
        flushes = max(1, min(_MOST_FLUSHES, math.ceil(ahead)))
        # On inputs of its own, as a timed one: programs give memory back after such.
        each = one.batch(few, flushes, given=self.draw(few)).wall / few
        calls = max(min(_FEWEST, self.most), min(self.most, int(share / max(each, 1e-7))))
        return Pace(calls=calls, flushes=flushes, seconds=each)

    def _slow_call(self, one: CudaContender) -> float:
        """Return the seconds of a call, 0.0 where it is not slow; the first call of a process loads what it needs."""
        for _ in range(2):
            seconds = one.batch(1, 1, given=self.draw(1)).wall
            if seconds <= _SLOW:
                return 0.0
        return seconds

    def _checkable(self, pace: Pace, eager: Pace, share: float) -> Pace:
        """Return the pace of a candidate whose answers can be checked about as fast as they are timed."""
        least = min(_FEWEST if eager.slow else _LEAST_CHECKED, pace.calls)
        checked = int(_CHECKED * share / max(eager.seconds, 1e-7))
        return replace(pace, calls=max(least, min(pace.calls, checked)))

    def _least(self) -> float:
        """Return the seconds that events see of any call at least, since each starts a kernel.

        Events around a kernel of 1.4 us were 6.2 us apart on an H200 (`kb bench aten --only mul`): a program that records the
        start again would have saved most of that, too little for the judge's clock.
        """
        batch = self.rivals["eager"].smallest(min(_SMALLEST_CALLS, self.most))
        # The least of them: whoever else uses the device makes the others longer.
        return _SMALLEST_SHARE * min(batch.device)

    def _gap(self, batch: Batch, pace: Pace) -> Gap:
        empty = self.rivals["eager"].batch(pace.calls, pace.flushes, empty=True)
        around, beyond = empty.wall - empty.total, batch.wall - batch.total
        allowed = _SHARE * batch.total + _AROUND * around + _ONCE + _EACH * pace.calls
        # A host that is late beside eager makes emptying longer than the device takes for it.
        emptying = min(around, pace.calls * pace.flushes * self.flush_seconds)
        spared = max(self.resident / pace.flushes, _UNEVEN) * emptying
        return Gap(
            seconds=beyond - around,
            missing=emptying - spared - allowed - beyond,
            emptying=emptying,
            allowed=allowed,
            calls=pace.calls,
            host=batch.host / batch.wall,
            between=batch.between - empty.between,
        )

    def _hidden(self, gaps: list[Gap], *, few: bool = False) -> list[float]:
        """Return the seconds of a call, in each block, for which the judge's clock is taken and not the events.

        The device may have waited for the host between two calls, or changed over between streams. A busy
        machine delays some batches, so that nobody is refused for those. But each is charged: a program that
        keeps to its events in some blocks has nothing from hiding its work in the others. A few microseconds a call
        are less than the clock sees: they are charged where the calls' events lie further apart by so much.

        Args:
            few: a batch has few calls, and each could hide much in what a batch costs: all beyond their events is charged.
        """
        if all(gap.seconds > gap.allowed for gap in gaps) and not (
            all(gap.host > _HOST_BOUND for gap in gaps) or min(gap.each for gap in gaps) <= _CHARGED
        ):
            raise _mismatch(
                f"its timed calls took longer by the judge's clock than by the events around them, by "
                f"{min(gap.seconds for gap in gaps) * 1e6:.0f} us a batch: work is left to another stream, to another "
                "moment, or the timer was changed"
            )
        if often([gap.missing for gap in gaps], 0.0):
            least = sorted(gaps, key=lambda gap: gap.missing)[len(gaps) // 2]
            raise _mismatch(
                "its batches took less by the judge's clock than emptying the caches and its own events together, by "
                f"{least.missing / least.calls * 1e6:.0f} us a call more than may be, where emptying alone takes "
                f"{least.emptying / least.calls * 1e6:.0f} us: the caches were not emptied"
            )
        always = all(gap.each > _EACH for gap in gaps)
        seen_between = often([gap.between for gap in gaps], _EACH)
        unseen = [max(gap.apart, 0.0) if seen_between else 0.0 for gap in gaps]
        pairs = zip(gaps, unseen, strict=True)
        return [
            max(gap.charged, less) if few or always or gap.seconds > gap.allowed else less
            for gap, less in pairs
        ]


def often(values: Sequence[float], bound: float) -> bool:
    """Say whether half of the blocks' values or more are beyond a bound: so many decide a median."""
    return 2 * sum(value > bound for value in values) >= len(values)


def resident_share(l2: int, written: int) -> float:
    """Return the share of writing so many bytes that a call may spare, where the cache holds `l2` bytes.

    What the cache held back of the last writing is gone before the next, and an answer that still
    stands in it is copied from there. What is left of the writing must still be more than the cache holds.
    """
    return max(min(2 * l2, written - l2), 0) / written


def _busy(seconds: float) -> Fault:
    return Fault(
        Refused(
            reason=f"while it stood still and its inputs were put in place, the device was slower by {seconds * 1e3:.1f} ms in "
            "every batch: a kernel of it ran on, before the clock had started",
            trick="work-outside-the-clock",
        )
    )


def _mismatch(reason: str) -> Fault:
    return Fault(Refused(reason=reason, trick="timer-mismatch"))
