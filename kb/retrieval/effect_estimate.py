"""What the use of a passage gained: an estimate that is shrunken, decayed and never starves.

A measurement is the logarithm of a candidate's speed over that of what it started from. What a
passage gains is taken as a sum of three unknowns around zero: of the passage anywhere, of it in an
operator family, of it in that family on one device at one bottleneck; a measurement adds noise. The
estimate (best linear prediction, level by level) therefore shrinks towards no gain, and evidence
from elsewhere counts, however much of it there is, for a third, from the same family for two
thirds. How far it shrinks follows from the measurements of all passages (empirical Bayes: the
variance within passages over that between them, by the method of moments), within bounds. An old
measurement counts less, half for each `HALF_LIFE`; a failure counts as a loss.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from kb.records.types import Effect

HALF_LIFE = 180 * 86400.0  # seconds: compilers, drivers and machines change
LOSS = -math.log(1.5)  # what a candidate that failed counts as: its place in the budget is lost
MOST = math.log(4.0)  # one measurement says no more than this
MAX_LIFT = math.log(2.0)  # an effect moves a passage by a factor of two at most
BONUS = math.log(1.05)  # of what was never tried: some three places among the first ten
GLANCES = 10.0  # times that a passage is passed over, which tell as much as one use
PRIOR = 4.0  # measurements that say no gain, where the data cannot tell how many
PRIOR_BOUNDS = (1.0, 16.0)
WITHIN = 0.3  # standard deviation of a measurement, where the data cannot tell
_ENOUGH = (5, 20)  # passages and measurements from which on the data can tell
_LEVELS = 3
_NORMAL = 1.645  # half the width of a 90 % interval, in standard deviations

Fate = Literal["won", "even", "lost", "failed"]
FATES: tuple[Fate, ...] = get_args(Fate)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
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
        return LOSS if self.fate == "failed" else max(-MOST, min(MOST, self.gain))


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """Where a question comes from; what is empty is not known."""

    families: frozenset[str] = frozenset()
    architecture: str = ""
    bottleneck: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """How much measurements scatter.

    Attributes:
        within: variance of the measurements of one passage.
        prior: measurements of no gain that an estimate starts from.
    """

    within: float = WITHIN**2
    prior: float = PRIOR


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The measurements of one passage in short."""

    count: float
    total: float
    squares: float


def spread(groups: Sequence[Group]) -> Spread:
    """Fit the scatter to the measurements of all passages (method of moments, mean zero)."""
    told = [group for group in groups if group.count > 0]
    count = sum(group.count for group in told)
    freedom = count - len(told)
    if len(told) < _ENOUGH[0] or count < _ENOUGH[1] or freedom <= 0:
        return Spread()
    inner = sum(group.squares - group.total**2 / group.count for group in told)
    within = max(inner / freedom, 1e-4)
    means = sum(group.total**2 / group.count for group in told)
    between = (means - len(told) * within) / count
    low, high = PRIOR_BOUNDS
    prior = high if between <= 0 else max(low, min(high, within / between))
    return Spread(within=within, prior=prior)


def estimate(
    trials: Sequence[Trial],
    where: Where,
    now: float,
    scatter: Spread | None = None,
    *,
    retrieved: int = 0,
) -> Effect:
    """Estimate what a passage gains where the question comes from.

    Args:
        trials: every measurement that rests on the passage.
        now: seconds since the epoch; what is newer counts as new.
        retrieved: how often it was returned, used or not.
    """
    scatter = scatter or Spread()
    level = scatter.within / scatter.prior / _LEVELS  # variance that each level adds
    mean, variance = 0.0, 0.0
    weights = []
    for depth, cell in enumerate(_cells(trials, where), start=1):
        variance += level
        pairs = [(_weight(trial, now), trial.value) for trial in cell]
        weight = sum(one for one, _ in pairs)
        weights.append(weight)
        if weight > 0:
            # What was measured above the last level differs by all that lies between.
            noise = scatter.within / weight + level * (_LEVELS - depth)
            trust = variance / (variance + noise)
            mean += trust * (sum(one * value for one, value in pairs) / weight - mean)
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
        gain=mean,
        low=mean - half,
        high=mean + half,
        weights=(exact, family, other),
        bonus=BONUS / math.sqrt(1.0 + exact + family + other + retrieved / GLANCES),
    )


def factor(effect: Effect) -> float:
    """Return what the score of a passage is multiplied by."""
    lift = effect.gain + effect.bonus + effect.lift
    return math.exp(max(-MAX_LIFT, min(MAX_LIFT, lift)))


def _cells(trials: Iterable[Trial], where: Where) -> tuple[list[Trial], list[Trial], list[Trial]]:
    """Deal the measurements to the levels, the most particular that the question can tell last."""
    exact: list[Trial] = []
    family: list[Trial] = []
    other: list[Trial] = []
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


def _weight(trial: Trial, now: float) -> float:
    return trial.share * math.exp(-math.log(2.0) * max(0.0, now - trial.at) / HALF_LIFE)
