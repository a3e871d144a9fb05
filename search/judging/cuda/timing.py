"""Times a candidate against the framework on a device: batches on fresh inputs, interleaved.

A call is timed by events in the runner, between them nothing but the call; before it more is written
than the L2 holds. Nobody has to believe the events: what the batch takes by the judge's clock, less
what the same batch takes without its calls in a process that no candidate has touched, must be
what the events add up to. A batch's mean counts, never its least call, so that work moved from one
call to another is no gain.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from search.judging.cuda.hearing import Batch
from search.judging.timing import Timing, interval
from search.judging.worker import Fault
from search.outcome import Refused

_WARM_SECONDS = 0.05  # of work before the first block, for the clocks to rise
_FEWEST = 3
_WARM_CALLS = 2  # before each batch: the device has just served another process
# What the clocks may differ by without anybody lying: a share, what one batch costs to start and to
# be waited for, and what the loop around a call costs where the processor is slower than the device.
_SHARE, _ONCE, _EACH = 0.05, 60e-6, 20e-6


class Contender(Protocol):
    """A process that runs batches of one program."""

    def batch(self, calls: int, flushes: int, *, empty: bool = False) -> Batch:
        """Time `calls` calls on the first inputs in place."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Races:
    """One timing session on a device.

    Attributes:
        rivals: name -> baseline; "eager" among them, which also runs the batches without calls.
        candidate: None where only the baselines are timed.
        refresh: puts new inputs in place for a contender; is told whose, the block and how many.
        check: is shown the block and how many of the candidate's answers there are; raises where
            one is wrong.
        most: calls that a batch may have: so many sets of inputs are there.
        blocks: how many ratios are taken; their median counts.
        seconds: that the session may take, about.
        flushes: how often the caches are emptied before a call.
    """

    rivals: Mapping[str, Contender]
    candidate: Contender | None
    refresh: Callable[[str, int, int], None]
    check: Callable[[int, int], None]
    most: int
    blocks: int
    seconds: float
    flushes: int

    def run(self) -> Timing:
        """Interleave the contenders in rotating order and compare them block by block."""
        contenders: dict[str, Contender] = dict(self.rivals)
        if self.candidate is not None:
            contenders["candidate"] = self.candidate
        for name in contenders:
            self.refresh(name, -1, self.most)
        share = self.seconds / self.blocks / len(contenders)
        counts = {name: self._count(one, share) for name, one in contenders.items()}
        means: dict[str, list[float]] = {name: [] for name in contenders}
        gaps: list[tuple[float, float]] = []
        names = list(contenders)
        for block in range(self.blocks):
            shift = block % len(names)
            for name in names[shift:] + names[:shift]:
                one, calls = contenders[name], counts[name]
                one.batch(min(_WARM_CALLS, calls), self.flushes)
                # After the warm-up, so that no timed call is given inputs that were seen before.
                self.refresh(name, block, calls)
                batch = one.batch(calls, self.flushes)
                means[name].append(batch.total / calls)
                if name == "candidate":
                    gaps.append(self._gap(batch, calls))
                    self.check(block, calls)
        self._compare_clocks(gaps)
        mine = means.get("candidate", means["eager"])
        return Timing(
            seconds={name: min(values) for name, values in means.items()},
            samples=counts.get("candidate", 0) * self.blocks,
            speedup={
                name: interval([base / own for base, own in zip(means[name], mine, strict=True)])
                for name in self.rivals
            },
        )

    def _count(self, one: Contender, share: float) -> int:
        """Return how many calls fill `share` seconds, having warmed the contender up."""
        end = time.monotonic() + _WARM_SECONDS
        batch = one.batch(1, self.flushes)
        while time.monotonic() < end:
            batch = one.batch(min(_WARM_CALLS, self.most), self.flushes)
        each = batch.wall / len(batch.device)
        return max(min(_FEWEST, self.most), min(self.most, int(share / max(each, 1e-7))))

    def _gap(self, batch: Batch, calls: int) -> tuple[float, float]:
        """Return what the judge's clock saw beyond the events, in seconds, and what is allowed."""
        empty = self.rivals["eager"].batch(calls, self.flushes, empty=True)
        gap = batch.wall - (empty.wall - empty.total) - batch.total
        return gap, _SHARE * batch.total + _ONCE + _EACH * calls

    def _compare_clocks(self, gaps: list[tuple[float, float]]) -> None:
        # A busy machine delays some batches; what is hidden is hidden in all of them.
        if gaps and all(gap > allowed for gap, allowed in gaps):
            raise _mismatch(
                f"its timed calls took longer by the judge's clock than by the events around them, by "
                f"{min(gap for gap, _ in gaps) * 1e6:.0f} us a batch: work is left to another stream, to another "
                "moment, or the timer was changed"
            )
        if gaps and all(gap < -allowed for gap, allowed in gaps):
            raise _mismatch(
                "its batches took less by the judge's clock than emptying the caches and its own events together, by "
                f"{-max(gap for gap, _ in gaps) * 1e6:.0f} us: the caches were not emptied"
            )


def _mismatch(reason: str) -> Fault:
    return Fault(Refused(reason=reason, trick="timer-mismatch"))
