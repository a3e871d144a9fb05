"""Whether a candidate holds the device while its baselines are timed: eager is asked again without it."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable

from search.judging.cpu.timing import Timing
from search.outcome import Passed, Refused
from search.sandbox.faults import Fault

_HOLDS = "holds-the-device"
# Whose work goes on while its inputs are put in place: so it looks, too, where others use the device.
_BUSY = "work-outside-the-clock"
_ALONE = 3  # times that it is asked at most
# How often one is refused for it. Another process on the device looks the same: a profile is drawn out while a judge prepares.
_HEARD = {_HOLDS: 3, _BUSY: 3, "timer-mismatch": 2}
_HELD = 1.25  # times slower: eager beside a candidate against eager alone


def require_free(first: Timing, here: Timing, alone: Callable[[], Timing]) -> float:
    """See that the candidate did not keep the device busy while its baselines were timed.

    A device that is as slow without the candidate has another clock by now, or somebody else uses it. Blocks
    of candidate and baselines take turns, so that their ratios hold. Where eager waits for the host, as the library's recurrent layers
    do with their thousands of launches, it takes longer at one time than at another: it is asked several times.

    Args:
        first: eager's times before there was a candidate.
        here: the same beside the candidate.
        alone: ends the candidate, and returns the same once more, each time.

    Returns:
        How many times as long eager takes by now; 1 where that was not looked at.

    Raises:
        Fault: it did.
    """
    before, beside = _middle(first), _middle(here)
    if beside < _HELD * before:
        return 1.0
    after = 0.0
    for _ in range(_ALONE):
        after = max(after, _middle(alone()))
        if after * _HELD >= beside:
            break
    else:
        raise Fault(
            Refused(
                reason=f"eager took {beside * 1e6:.0f} us beside it and {after * 1e6:.0f} us without: it keeps the device "
                "busy between its calls",
                trick=_HOLDS,
            )
        )
    return after / before


def heard_again(hear: Callable[[], tuple[Passed, float]]) -> tuple[Passed, float]:
    """Return what judging a candidate comes to, judged again where another process on the device can be what was seen.

    Where eager waits for the host, a host that is slow for seconds looks the same: a graph capture of ResNet-18, 9
    times as fast as eager, was refused on an H200 since eager took 3.4 ms beside it and 2.5 without. A program that
    holds the device is seen to each time, and what is reported is of the time in which nothing was seen. An average of pairs
    was refused beside three other judges of one H200: its inputs took 0.4 ms longer than eager's in half of the blocks; a
    product, since it took 1,436 us in each of three profiles and 1,258 as timed.

    Raises:
        Fault: every time, or for another reason.
    """
    seen: Counter[str] = Counter()
    while True:
        try:
            return hear()
        except Fault as fault:
            trick = getattr(fault.outcome, "trick", "")
            seen[trick] += 1
            if seen[trick] >= _HEARD.get(trick, 1):
                raise


def _middle(timing: Timing) -> float:
    """Return the seconds of a call of eager in the middle block: one that was left alone says nothing of the others."""
    return statistics.median(timing.calls["eager"])
