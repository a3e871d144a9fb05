"""What one core of this machine moves between memory and itself, measured."""

from __future__ import annotations

import time
from functools import cache

import numpy as np

_BYTES = 128 << 20  # several times the last-level cache's share of one core


@cache
def core_bandwidth(samples: int = 5) -> float:
    """Return bytes/s, read plus written, of one core that copies a large buffer (best of `samples`).

    It is measured once in a process.

    A target's record gives the socket's bandwidth, which one core does not reach: a diagnosis of
    single-threaded code needs this figure.
    """
    source = np.ones(_BYTES, dtype=np.uint8)
    copy = np.zeros_like(source)
    best = float("inf")
    for _ in range(samples):
        start = time.perf_counter()
        np.copyto(copy, source)
        best = min(best, time.perf_counter() - start)
    return 2 * _BYTES / best
