"""Known kernels, whose times say whether a device is as fast as it was."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

_SECONDS = 0.15  # of repeating each kernel
_LEAST = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """How long the known kernels took, in seconds; the least of several times.

    Attributes:
        arithmetic: a product of two matrices.
        memory: a copy of an array that no cache holds.
    """

    arithmetic: float
    memory: float

    def least(self, other: Calibration) -> Calibration:
        """Return the shorter of each of the two times: what disturbs a kernel makes it slower."""
        return Calibration(
            arithmetic=min(self.arithmetic, other.arithmetic),
            memory=min(self.memory, other.memory),
        )

    def slower(self, other: Calibration, tolerance: float) -> bool:
        """Say whether one of the two times is longer than that of `other` by more than `tolerance`."""
        pairs = ((self.arithmetic, other.arithmetic), (self.memory, other.memory))
        return any(mine > theirs * (1 + tolerance) for mine, theirs in pairs)

    def differs(self, other: Calibration, tolerance: float) -> str:
        """Say how this differs from `other` by more than `tolerance`, empty where it does not."""
        pairs = (
            ("arithmetic", self.arithmetic, other.arithmetic),
            ("memory", self.memory, other.memory),
        )
        return ", ".join(
            f"{name} takes {mine / theirs:.2f} times as long"
            for name, mine, theirs in pairs
            if max(mine / theirs, theirs / mine) > 1 + tolerance
        )


def measure(device: str) -> Calibration:
    """Run the known kernels on ``cpu`` or ``cuda``, in this process."""
    import torch

    arithmetic, memory = (2048, 64 << 20) if device == "cuda" else (384, 8 << 20)
    left = torch.ones(arithmetic, arithmetic, device=device)
    product = torch.empty_like(left)
    source = torch.ones(memory, device=device)  # float32: four bytes an element
    target = torch.empty_like(source)
    timed = _seconds_on_gpu if device == "cuda" else _seconds_on_processor
    threads = torch.get_num_threads()
    # On a processor: threads that wait for each other on a busy machine are slow a hundredfold.
    torch.set_num_threads(1)
    found = Calibration(
        arithmetic=timed(lambda: torch.mm(left, left, out=product)),
        memory=timed(lambda: target.copy_(source)),
    )
    torch.set_num_threads(threads)
    if device == "cuda":
        del left, product, source, target
        torch.cuda.empty_cache()  # candidates have a use for it
    return found


def _seconds_on_processor(work: Callable[[], object]) -> float:
    least, count, end = float("inf"), 0, time.perf_counter() + _SECONDS
    work()
    while count < _LEAST or time.perf_counter() < end:
        began = time.perf_counter()
        work()
        least, count = min(least, time.perf_counter() - began), count + 1
    return least


def _seconds_on_gpu(work: Callable[[], object]) -> float:
    import torch

    least, count, end = float("inf"), 0, time.perf_counter() + _SECONDS
    while count < _LEAST or time.perf_counter() < end:
        # torch gives its events no types.
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        first.record()
        work()
        last.record()
        last.synchronize()
        least, count = min(least, first.elapsed_time(last) / 1e3), count + 1
    return least
