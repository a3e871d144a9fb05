"""How soon the judge sees that a call has ended.

A virtual machine may be given its two processors in turns instead of at once. Then a runner does all of its work while
nobody watches: every call takes as long as a turn, and what a program does after it has said that it is done
cannot be told from what it did before. On such a machine library calls, too, were no faster than slow kernels.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from search.judging.cpu.timing import Sample, Timing
from search.outcome import Ratio

_LATE, _LATE_SHARE = 50_000, 0.02  # ns, and a share of the call, by which its end may be seen late
ENOUGH = 0.5  # of what counts, blocks or calls, must be seen to end, of each program
_PAUSES = (1.0, 3.0)  # seconds before a session is run again
_WAITED = 100_000  # ns that a call may wait for its processor and count as undisturbed
# A call that was preempted counts as undisturbed where it waited for less than this share of its time: what
# torch.compile writes is preempted once in each call by a thread of its own, for 10 us.
_PREEMPTED_SHARE = 0.002
T = TypeVar("T")
_UNSURE = 10.0  # times: what the times of calls are worth that nobody saw end
_RESOLUTION = 0.5e-6  # seconds: what less than that is cannot be said
_SLOW_WAKING, _LATEST = 500e-6, 2  # seconds, and calls that do nothing before a session
_MOST_WAKING = 200e-6  # seconds: three times what waking took on the slowest machine that was seen


def kept_processor(before: tuple[int, int], after: tuple[int, int], took: int) -> bool:
    """Say whether a call hardly waited for its processor.

    Args:
        before, after: how often it had been preempted, and the ns that it had waited.
        took: ns of the call.
    """
    preempted, waiting = after[0] > before[0], after[1] - before[1]
    return waiting < (min(_WAITED, _PREEMPTED_SHARE * took) if preempted else _WAITED)


class Waking:
    """The least time in which a runner wakes up and is seen to be done: no part of any call.

    It is measured in a runner that no candidate has touched, by calls that do nothing, and no more than the
    least is taken away: nobody wakes up faster. Where the machine was busy during all of them, the least is
    long, and taken from a call of a quiet moment it would leave nothing: so there is a most.
    """

    def __init__(self) -> None:
        self._least = math.inf
        self._latest = deque[float](maxlen=_LATEST)

    def note(self, seconds: float) -> None:
        """Take a call that did nothing into account."""
        self._least = min(self._least, seconds)
        self._latest.append(seconds)

    @property
    def slow(self) -> bool:
        """Each of the latest calls that did nothing took far longer than waking takes."""
        return min(self._latest, default=0.0) > _SLOW_WAKING

    def less(self, sample: Sample) -> Sample:
        """Return the sample without it."""
        if self._least == math.inf:
            return sample
        taken_away = min(self._least, _MOST_WAKING)
        return sample._replace(seconds=max(sample.seconds - taken_away, _RESOLUTION))


def seen_at_once(late: int, took: int) -> bool:
    """Say whether the end of a call was seen at once.

    Args:
        late: ns between the last look at which it had not ended, and the first at which it had.
        took: ns of the call.
    """
    return late < max(_LATE, _LATE_SHARE * took)


def until_seen(
    run: Callable[[], T], share: Callable[[T], float], forget: Callable[[], None] = lambda: None
) -> T:
    """Return what `run` returns, run again where too few calls were seen to end; the last one stands.

    Args:
        share: says of a result which part of its calls was seen to end.
        forget: drops what was learned meanwhile.
    """
    for pause in _PAUSES:
        found = run()
        if share(found) >= ENOUGH:
            return found
        time.sleep(pause)
        forget()
    return run()


def watched(
    run: Callable[[], Timing],
    forget: Callable[[], None] = lambda: None,
    waking: Waking | None = None,
) -> Timing:
    """Return the times of a session, see `until_seen`.

    Args:
        waking: that `run` measures before it times; where it is slow, no end was seen.
    """

    def once() -> Timing:
        timing = run()
        return replace(timing, seen=0.0) if waking is not None and waking.slow else timing

    return until_seen(once, lambda timing: timing.seen, forget)


def seen_share(timing: Timing) -> dict[str, float]:
    """Return what an outcome keeps: ``seen``, the share of blocks, where too few were seen to end."""
    return {} if timing.seen >= ENOUGH else {"seen": timing.seen}


def believed(timing: Timing) -> Mapping[str, Ratio]:
    """Return the speed-ups; where too little was seen, none is above 1, and with intervals that tell nothing."""
    if timing.seen >= ENOUGH:
        return timing.speedup
    return {name: _unsure(ratio) for name, ratio in timing.speedup.items()}


def _unsure(ratio: Ratio) -> Ratio:
    most = min(ratio.ratio, 1.0)
    return replace(ratio, ratio=most, low=most / _UNSURE, high=max(1.0, most * _UNSURE))
