"""Findings of profilers: what holds a program back, and how that is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

Evidence = Literal[
    "counted by the hardware",
    "told by the compiler",
    "counted from the reference's operators",
    "seen in the profile",
    "inferred",
]


COUNTED: Evidence = "counted by the hardware"


TOLD: Evidence = "told by the compiler"


OPERATORS: Evidence = "counted from the reference's operators"
SEEN: Evidence = "seen in the profile"


INFERRED: Evidence = "inferred"


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


def lossy(loss: str, *, gain: float) -> Finding:
    """Return what a compiler's warning amounts to."""
    symptom = "tensor-cores-idle" if "mma" in loss else "register-pressure"  # setmaxnreg ignored
    return Finding(symptom=symptom, text=f"The compiler warns: {loss}.", gain=gain, evidence=TOLD)
