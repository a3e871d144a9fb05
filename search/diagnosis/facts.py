"""What is known of a program on a GPU, and what may be found in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from search.costs.graph import Work
from search.outcome import KernelTime

if TYPE_CHECKING:
    from kb.records.schema import TargetRecord

Evidence = Literal[
    "counted by the hardware", "told by the compiler", "seen in the profile", "inferred"
]
COUNTED: Evidence = "counted by the hardware"
TOLD: Evidence = "told by the compiler"
SEEN: Evidence = "seen in the profile"
INFERRED: Evidence = "inferred"
NEAR = 0.75  # of a ceiling, from which on only less work helps


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that holds a program back.

    Attributes:
        gain: fraction of the call's time that mending it could save, roughly and at most.
        headline: it tells where the program stands, and comes first whatever it could gain.
    """

    symptom: str
    text: str
    gain: float
    evidence: Evidence
    headline: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What a closer look at a program found: hardware counters, a compiler's report.

    Attributes:
        features: beside those of its outcome.
        notes: what the reader should know, such as why there are no counters.
    """

    features: Mapping[str, float] = field(default_factory=dict)
    findings: Sequence[Finding] = ()
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
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


Rule = Callable[[Scene], Iterator[Finding]]


def duration(seconds: float) -> str:
    """Return seconds as people write them."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


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


def lossy(loss: str, *, gain: float) -> Finding:
    """Return what a compiler's warning amounts to."""
    symptom = "tensor-cores-idle" if "mma" in loss else "register-pressure"  # setmaxnreg ignored
    return Finding(symptom=symptom, text=f"The compiler warns: {loss}.", gain=gain, evidence=TOLD)
