"""What holds a program back, as prompts and replies say it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Confidence = Literal["high", "medium", "low"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bottleneck:
    """One thing that holds a program back, as a context step states it.

    Attributes:
        symptom: from `kb.records.schema.SYMPTOMS` where one fits.
        text: what was seen, with its figures.
        evidence: where that is known from.
        gain: fraction of the call's time that mending it could save at most, None where unknown.
        later: worth little now, or a guess beside evidence: not what to work on next.
    """

    symptom: str
    text: str
    evidence: str
    confidence: Confidence
    gain: float | None = None
    later: bool = False
