"""How far a lesson is to be believed: what confirms it, what contradicts it, and what it gains."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from math import log

from kb.records.schema import Effect, Evidence, LessonRecord
from kb.retrieval.effect_estimate import decayed, mean, value_of

PRIOR = 1.0  # measurements of no gain that count beside those of a lesson
_DAY = 86400.0
_EVEN = 0.5  # a difference that cannot be seen says half as much as one that can


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What the evidence of a lesson amounts to.

    Attributes:
        confirmed, contradicted: measurements, whatever their age.
        weight_for, weight_against: the same, each less by its age, see `kb.retrieval.effect_estimate.decayed`.
        gain: log of the speed-up of what the lesson is about, shrunken towards 0.
        latest: day of the newest measurement.
    """

    confirmed: int
    contradicted: int
    weight_for: float
    weight_against: float
    gain: float
    latest: date | None

    @property
    def trust(self) -> float:
        """Chance that the next measurement confirms it (Laplace's rule of succession)."""
        return (self.weight_for + 1) / (self.weight_for + self.weight_against + 2)

    @property
    def outweighed(self) -> bool:
        """Say whether more contradicts it than confirms it."""
        return self.weight_against > self.weight_for

    @property
    def expected(self) -> float:
        """Log speed-up to expect of trying it: nothing of a lesson that is as often wrong."""
        return self.gain * max(0.0, 2 * self.trust - 1)

    @property
    def lift(self) -> float:
        """Log factor for its rank among passages: above 0 where it is trusted, below where not."""
        return log(2 * self.trust)


def stance(effect: Effect, evidence: Evidence) -> float:
    """Return how a measurement bears on a claim: above 0 confirms it, below contradicts it.

    A measurement that names no run proves nothing and counts nothing.
    """
    if evidence.run is None:
        return 0.0
    outcome = evidence.outcome
    if effect in ("wins", "helps"):
        return {"won": 1.0, "even": 0.0, "lost": -1.0, "failed": -1.0}[outcome]
    if effect == "even":
        return _EVEN if outcome == "even" else -1.0
    return {"won": -1.0, "even": 0.0, "lost": 1.0, "failed": 1.0}[outcome]


def standing(record: LessonRecord, today: date) -> Standing:
    """Weigh the evidence of a lesson as of `today`."""
    effect = effect_of(record)
    weights = [_weight(one, today) for one in record.evidence]
    sides = [stance(effect, one) for one in record.evidence]
    _, gain = mean(
        (
            (weight, value_of(None if one.gain is None else log(one.gain)))
            for one, weight in zip(record.evidence, weights, strict=True)
            if one.run is not None
        ),
        PRIOR,
    )
    # What is no longer listed is older than all that is: it weighs as the oldest listed.
    oldest, earlier = min(weights, default=1.0), record.earlier
    weighed = [side * weight for side, weight in zip(sides, weights, strict=True)]
    return Standing(
        confirmed=earlier.confirmed + sum(side > 0 for side in sides),
        contradicted=earlier.contradicted + sum(side < 0 for side in sides),
        weight_for=oldest * earlier.confirmed + sum(one for one in weighed if one > 0),
        weight_against=oldest * earlier.contradicted - sum(one for one in weighed if one < 0),
        gain=gain,
        latest=max((one.at for one in record.evidence if one.at is not None), default=None),
    )


def effect_of(record: LessonRecord) -> Effect:
    """Return what a lesson claims; one without a claim says what its first measurement said."""
    if record.claim is not None:
        return record.claim.effect
    named: dict[str, Effect] = {"won": "wins", "lost": "hurts", "failed": "fails", "even": "even"}
    return named[record.evidence[0].outcome]


def _weight(evidence: Evidence, today: date) -> float:
    return 1.0 if evidence.at is None else decayed((today - evidence.at).days * _DAY)
