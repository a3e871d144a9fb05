"""What is known of a program on a GPU, and what may be found in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from search.costs.graph import Work
from search.finding import Finding
from search.outcome import KernelTime
from synth.device_facts import duration

if TYPE_CHECKING:
    from kb.records.schema import TargetRecord

NEAR = 0.75  # of a ceiling, from which on only less work helps


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramFacts:
    """All that is known of one program on one device.

    Attributes:
        rate, peak: name and FLOP/s of the arithmetic that the task's precision allows.
        bandwidth: bytes/s of the device's memory.
        profile: features of the outcome; keys that begin with ``ncu_`` are hardware counters.
        kernels: what the device ran, the longest first.
        losses: why the compiler expects it to be slow.
    """

    work: Work
    target: TargetRecord
    rate: str
    peak: float
    bandwidth: float
    seconds: float
    profile: Mapping[str, float]
    kernels: tuple[KernelTime, ...] = ()
    losses: tuple[str, ...] = ()
    own_share: float | None = None
    strict: bool = True

    @property
    def memory_floor(self) -> float:
        """Seconds for every input, parameter and output once."""
        return self.work.bytes / self.bandwidth

    @property
    def compute_floor(self) -> float:
        """Seconds for the reference's operations at the peak."""
        return self.work.flops / self.peak

    def get(self, *keys: str) -> float | None:
        """Return the first of these features that was measured, None where none was."""
        return next((self.profile[key] for key in keys if key in self.profile), None)

    @property
    def busy(self) -> float | None:
        """How busy the busiest of memory and pipes is, None without counters."""
        keys = ("ncu_dram_share", "ncu_tensor_share", "ncu_fma_share", "ncu_issue_share")
        known = [self.profile[key] for key in keys if key in self.profile]
        return max(known, default=None)


Rule = Callable[[ProgramFacts], Iterator[Finding]]


def beyond(work: str, floor: float, seconds: float) -> str:
    """Say what it means that a call takes less than the reference's whole work would; "" if it does not.

    Args:
        work: "arithmetic" or "traffic".
    """
    if seconds * 1.05 >= floor:
        return ""
    how = "masked, skipped, reordered" if work == "arithmetic" else "kept in caches, skipped"
    return (
        f"Faster than the reference's whole {work} allows: that needs {duration(floor)}, a call takes "
        f"{duration(seconds)}. Part of it is spared ({how}), so how near the device's limit it is, this count "
        "cannot tell."
    )
