"""What the use of a passage gained: an estimate that is shrunken, decayed and never starves.

A measurement is the logarithm of a candidate's speed over that of what it started from. What a
passage gains is taken as a sum of three unknowns around zero: of the passage anywhere, of it in an
operator family, of it in that family on one device at one bottleneck; a measurement adds noise. The
estimate (best linear prediction, level by level) therefore shrinks towards no gain: `n`
measurements from where the question comes from count as `n` of `n + PRIOR`. Evidence from elsewhere
counts, however much of it there is, for a third, from the same family for two thirds. An old
measurement counts less, half for each `HALF_LIFE`; a failure counts as a loss.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kb.records.types import Effect, Fate

HALF_LIFE = 180 * 86400.0  # seconds: compilers, drivers and machines change
LOSS = -math.log(1.5)  # what a candidate that failed counts as: its place in the budget is lost
MOST = math.log(4.0)  # one measurement says no more than this
MAX_LIFT = math.log(2.0)  # an effect moves a passage by a factor of two at most
BONUS = math.log(1.05)  # of what was never tried: some three places among the first ten
GLANCES = 10.0  # times that a passage is passed over, which tell as much as one use
PRIOR = 4.0  # measurements that say no gain
WITHIN = 0.3  # standard deviation of a measurement
_LEVELS = 3
_NORMAL = 1.645  # half the width of a 90 % interval, in standard deviations


@dataclass(frozen=True, slots=True, kw_only=True)
class GainMeasurement:
    """A measurement of a candidate that rests on a passage.

    Attributes:
        gain: log speed over what it started from; of one that failed, any number.
        fate: even where its interval cannot be told from that of what it started from.
        share: of the credit: 1 where its idea names the passage, less where a prompt only quoted it.
        at: seconds since the epoch.
        families: operator families of its task.
        bottleneck: the worst symptom of what it started from.
    """

    gain: float
    fate: Fate
    at: float
    share: float = 1.0
    families: frozenset[str] = frozenset()
    architecture: str = ""
    bottleneck: str = ""

    @property
    def value(self) -> float:
        """What it says, with failures as losses and luck bounded."""
        return value_of(None if self.fate == "failed" else self.gain)


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """Where a question comes from; what is empty is not known."""

    families: frozenset[str] = frozenset()
    architecture: str = ""
    bottleneck: str = ""


def value_of(gain: float | None) -> float:
    """Return what one measurement says: a log gain within bounds, a loss for None, which failed."""
    return LOSS if gain is None else max(-MOST, min(MOST, gain))


def decayed(seconds: float) -> float:
    """Return the weight of a measurement of an age in seconds; what is newer than now counts as new."""
    return math.exp(-math.log(2.0) * max(0.0, seconds) / HALF_LIFE)


def mean(pairs: Iterable[tuple[float, float]], prior: float = 0.0) -> tuple[float, float]:
    """Return the total weight of measurements, given as weight and value, and their mean.

    Args:
        prior: measurements of no gain that count beside them: they shrink the mean towards 0.
    """
    weight = total = 0.0
    for one, value in pairs:
        weight += one
        total += one * value
    return weight, total / (weight + prior) if weight else 0.0


def estimate(
    trials: Sequence[GainMeasurement], where: Where, now: float, *, retrieved: int = 0
) -> Effect:
    """Estimate what a passage gains where the question comes from.

    Args:
        trials: every measurement that rests on the passage.
        now: seconds since the epoch; what is newer counts as new.
        retrieved: how often it was returned, used or not.
    """
    level = WITHIN**2 / PRIOR / _LEVELS  # variance that each level adds
    gain, variance = 0.0, 0.0
    weights = []
    for depth, cell in enumerate(_cells(trials, where), start=1):
        variance += level
        weight, measured = mean((one.share * decayed(now - one.at), one.value) for one in cell)
        weights.append(weight)
        if weight > 0:
            # What was measured above the last level differs by all that lies between.
            noise = WITHIN**2 / weight + level * (_LEVELS - depth)
            trust = variance / (variance + noise)
            gain += trust * (measured - gain)
            variance *= 1 - trust
    other, family, exact = weights
    half = _NORMAL * math.sqrt(variance)
    fates = [trial.fate for trial in trials]
    return Effect(
        retrieved=retrieved,
        won=fates.count("won"),
        even=fates.count("even"),
        lost=fates.count("lost"),
        failed=fates.count("failed"),
        gain=gain,
        low=gain - half,
        high=gain + half,
        weights=(exact, family, other),
        bonus=BONUS / math.sqrt(1.0 + exact + family + other + retrieved / GLANCES),
    )


def factor(effect: Effect) -> float:
    """Return what the score of a passage is multiplied by."""
    lift = effect.gain + effect.bonus + effect.lift
    return math.exp(max(-MAX_LIFT, min(MAX_LIFT, lift)))


def _cells(
    trials: Iterable[GainMeasurement], where: Where
) -> tuple[list[GainMeasurement], list[GainMeasurement], list[GainMeasurement]]:
    """Deal the measurements to the levels, the most particular that the question can tell last."""
    exact: list[GainMeasurement] = []
    family: list[GainMeasurement] = []
    other: list[GainMeasurement] = []
    for trial in trials:
        unknown = not where.families and not where.bottleneck
        if unknown or (where.families and not where.families & trial.families):
            # What a question does not tell, nothing measured can be said to share with it.
            other.append(trial)
        elif (where.architecture and where.architecture != trial.architecture) or (
            where.bottleneck and where.bottleneck != trial.bottleneck
        ):
            family.append(trial)
        else:
            exact.append(trial)
    return other, family, exact
