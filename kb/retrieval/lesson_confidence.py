"""How far a lesson is to be believed: what confirms it, what contradicts it, and what it gains."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from math import exp, log

from kb.records.schema import Document, Effect, Evidence, LessonRecord

HALF_LIFE = 180.0  # days: compilers, drivers and machines change
PRIOR = 1.0  # evidence of no gain that every estimate starts from
MOST = log(4.0)  # one measurement moves an estimate by no more
FAILED = -log(2.0)  # what a candidate that failed counts as
_EVEN = 0.5  # a difference that cannot be seen says half as much as one that can


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What the evidence of a lesson amounts to.

    Attributes:
        confirmed, contradicted: measurements, whatever their age.
        weight_for, weight_against: the same, halved for every `HALF_LIFE` days of age.
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
    total_for, total_against = 0.0, 0.0
    gains, weights = 0.0, PRIOR
    confirmed, contradicted = record.earlier.confirmed, record.earlier.contradicted
    for one in record.evidence:
        weight = _weight(one, today)
        side = stance(effect, one)
        confirmed += side > 0
        contradicted += side < 0
        total_for += max(0.0, side) * weight
        total_against += max(0.0, -side) * weight
        if one.run is not None:
            gains += weight * _gain(one)
            weights += weight
    # What is no longer listed is older than all that is: it weighs as the oldest listed.
    oldest = min((_weight(one, today) for one in record.evidence), default=1.0)
    return Standing(
        confirmed=confirmed,
        contradicted=contradicted,
        weight_for=total_for + oldest * record.earlier.confirmed,
        weight_against=total_against + oldest * record.earlier.contradicted,
        gain=gains / weights,
        latest=max((one.at for one in record.evidence if one.at is not None), default=None),
    )


def effect_of(record: LessonRecord) -> Effect:
    """Return what a lesson claims; one without a claim says what its first measurement said."""
    if record.claim is not None:
        return record.claim.effect
    named: dict[str, Effect] = {"won": "wins", "lost": "hurts", "failed": "fails", "even": "even"}
    return named[record.evidence[0].outcome]


def lifts(documents: Iterable[Document], today: date) -> dict[str, float]:
    """Return, by the name of each lesson, the log factor that its evidence gives its rank."""
    return {
        document.name: standing(document.record, today).lift
        for document in documents
        if isinstance(document.record, LessonRecord)
    }


def _weight(evidence: Evidence, today: date) -> float:
    if evidence.at is None:
        return 1.0
    return exp(-log(2.0) * max(0, (today - evidence.at).days) / HALF_LIFE)


def _gain(evidence: Evidence) -> float:
    if evidence.gain is None:
        return FAILED
    return max(-MOST, min(MOST, log(evidence.gain)))
