"""Whether whoever holds the clock had a processor to see the end of calls with.

A virtual machine may be given its two processors in turns instead of at once. Then a runner does all of its work while
nobody watches: every call takes as long as a turn, and what a program does after it has said that it is done
cannot be told from what it did before. On such a machine library calls, too, were no faster than slow kernels.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

_LATE, _LATE_SHARE = 200_000, 0.1  # ns, and a share of the call, for which the watcher may be away
ENOUGH = 0.25  # of the calls must be seen to end: a program never knows which
_PAUSES = (1.0, 3.0)  # seconds before it is tried again
T = TypeVar("T")


class WatchedCalls:
    """Counts the calls whose end was seen at once.

    The kernel counts this thread's processor time, without what other programs and other machines took of it.

    Args:
        shared: watcher and runner have one processor, and take turns by design: nothing is said then.
    """

    def __init__(self, *, shared: bool) -> None:
        self._shared = shared
        self._spent = 0
        self.forget()

    def forget(self) -> None:
        """Begin to count anew."""
        self._calls = self._seen = 0

    def begin(self) -> None:
        """Note that a call begins."""
        self._spent = time.thread_time_ns()

    def end(self, took: int, slept: int = 0) -> bool:
        """Note that a call has ended; say whether that was seen at once.

        Args:
            took: ns of the call.
            slept: ns of it in which nobody had to watch.
        """
        away = took - slept - (time.thread_time_ns() - self._spent)
        seen = self._shared or away < max(_LATE, _LATE_SHARE * took)
        self._calls += 1
        self._seen += seen
        return seen

    @property
    def share(self) -> float:
        """Share of the calls whose end was seen at once; 1 where there were none."""
        return self._seen / self._calls if self._calls else 1.0

    def told(self) -> dict[str, float]:
        """Return what an outcome keeps: ``watched``, the share, where it was too small."""
        return {} if self.share >= ENOUGH else {"watched": self.share}


def watched(run: Callable[[], T], watch: WatchedCalls, forget: Callable[[], None]) -> T:
    """Return what `run` returns, run again where too few calls were seen to end; the last one stands.

    Args:
        forget: drops what was learned meanwhile.
    """
    for pause in _PAUSES:
        watch.forget()
        result = run()
        if watch.share >= ENOUGH:
            return result
        time.sleep(pause)
        forget()
    watch.forget()
    return run()
