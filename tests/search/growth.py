"""How the work of a reader grows with its text: a ratio of processor times, which no busy machine changes."""

from __future__ import annotations

import time
from collections.abc import Callable

QUADRATIC = (
    12.0  # of four times the text; a quadratic reader takes 16 times as long, a linear one 4
)
FLOOR = 0.03  # seconds of processor time below which a ratio says nothing


def growth(work: Callable[[float], object]) -> float:
    """Return how many times longer `work` takes on the whole text than on a quarter of it."""
    return spent(work, 1.0) / max(spent(work, 0.25), FLOOR)


def spent(work: Callable[[float], object], part: float) -> float:
    """Return the least processor time of this thread, in seconds, of two times `work(part)`: others of a process have work, too."""
    times = []
    for _ in range(2):
        began = time.thread_time()
        work(part)
        times.append(time.thread_time() - began)
    return min(times)
