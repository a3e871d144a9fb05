from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.records.types import Effect
from kb.retrieval.effect_estimate import (
    BONUS,
    HALF_LIFE,
    LOSS,
    MAX_LIFT,
    MOST,
    PRIOR,
    WITHIN,
    GainMeasurement,
    Where,
    estimate,
    factor,
)

NOW = 1_800_000_000.0
HERE = Where(families=frozenset({"softmax"}), architecture="sm_90", bottleneck="memory-bound")

gains = st.floats(-3, 3, allow_nan=False)
counts = st.integers(1, 30)
ages = st.floats(0, 20 * HALF_LIFE)


def trial(gain: float = 0.3, **other: object) -> GainMeasurement:
    values: dict[str, object] = {
        "fate": "won" if gain > 0 else "lost",
        "at": NOW,
        "families": HERE.families,
        "architecture": HERE.architecture,
        "bottleneck": HERE.bottleneck,
        **other,
    }
    return GainMeasurement(gain=gain, **values)  # type: ignore[arg-type]


def effect(*trials: GainMeasurement, where: Where = HERE, now: float = NOW) -> Effect:
    return estimate(trials, where, now)


def test_the_numbers_of_one_case_by_hand() -> None:
    trials = [trial(0.4), trial(0.2), trial(0.3, families=frozenset({"matmul"}))]
    level = WITHIN**2 / PRIOR / 3
    trust = level / (level + 2 * level + WITHIN**2)
    other, rest = trust * 0.3, level * (1 - trust)
    prior = rest + 2 * level
    trust = prior / (prior + WITHIN**2 / 2)
    found = effect(*trials)
    assert found.gain == pytest.approx(other + trust * (0.3 - other))
    half = 1.645 * math.sqrt(prior * (1 - trust))
    assert (found.low, found.high) == pytest.approx((found.gain - half, found.gain + half))
    assert found.weights == pytest.approx((2.0, 0.0, 1.0))
    assert (found.won, found.lost, found.used) == (3, 0, 3)
    assert found.bonus == pytest.approx(BONUS / math.sqrt(1 + 3))


@given(gain=gains, count=counts)
def test_an_estimate_is_shrunken_towards_no_gain(gain: float, count: int) -> None:
    found = effect(*[trial(gain)] * count)
    bounded = max(-MOST, min(MOST, gain))
    assert abs(found.gain) <= abs(bounded)
    assert found.gain * gain >= 0
    assert found.low <= found.gain <= found.high


@given(gain=st.floats(0.01, 1), count=counts)
def test_more_of_the_same_evidence_says_more_and_narrows_the_interval(
    gain: float, count: int
) -> None:
    fewer, more = effect(*[trial(gain)] * count), effect(*[trial(gain)] * (count + 1))
    assert more.gain > fewer.gain
    assert more.high - more.low < fewer.high - fewer.low


@given(trials=st.lists(gains.map(trial), max_size=12), better=st.floats(0.01, 1), place=st.data())
def test_a_better_measurement_never_lowers_an_estimate(
    trials: list[GainMeasurement], better: float, place: st.DataObject
) -> None:
    if not trials:
        return
    number = place.draw(st.integers(0, len(trials) - 1))
    raised = list(trials)
    raised[number] = replace(trials[number], gain=trials[number].gain + better)
    assert effect(*raised).gain >= effect(*trials).gain


@given(gain=gains, age=ages, older=st.floats(1.0, HALF_LIFE))
def test_an_estimate_decays_with_age_towards_no_gain(gain: float, age: float, older: float) -> None:
    young, old = trial(gain, at=NOW - age), trial(gain, at=NOW - age - older)
    assert abs(effect(old).gain) <= abs(effect(young).gain)
    assert effect(old).bonus >= effect(young).bonus


def test_half_of_a_measurement_is_left_after_a_half_life() -> None:
    assert effect(trial(at=NOW - HALF_LIFE)).weights[0] == pytest.approx(0.5)
    assert effect(trial(at=NOW + 5)).weights[0] == 1.0


@given(count=counts)
def test_each_failure_sinks_a_passage_below_what_was_never_tried(count: int) -> None:
    failed = trial(9.9, fate="failed")
    never, fewer, more = (factor(effect(*[failed] * n)) for n in (0, count, count + 1))
    assert more < fewer < never
    assert failed.value == LOSS


@given(wins=st.integers(0, 200), passed_over=st.integers(0, 500))
def test_a_newcomer_is_raised_by_a_bounded_bonus_and_never_starved(
    wins: int, passed_over: int
) -> None:
    newcomer = factor(estimate([], HERE, NOW))
    assert newcomer == pytest.approx(math.exp(BONUS))
    # However often others won, what they are raised by is bounded: a newcomer that answers the
    # question twice as well comes first.
    assert factor(effect(*[trial(2.0)] * wins)) <= math.exp(MAX_LIFT)
    glanced = estimate([], HERE, NOW, retrieved=passed_over)
    assert 0 < glanced.bonus <= BONUS
    assert factor(glanced) >= 1.0


def test_what_was_passed_over_often_is_no_newcomer() -> None:
    bonuses = [estimate([], HERE, NOW, retrieved=count).bonus for count in (0, 10, 100)]
    assert bonuses == sorted(bonuses, reverse=True)
    assert bonuses[0] > bonuses[1] > bonuses[2]


@given(gain=st.floats(0.01, 1), count=counts)
def test_evidence_counts_most_where_the_question_comes_from(gain: float, count: int) -> None:
    here = [trial(gain)] * count
    elsewhere = [trial(gain, architecture="gfx942")] * count
    other = [trial(gain, families=frozenset({"matmul"}))] * count
    estimates = [effect(*trials).gain for trials in (here, elsewhere, other)]
    assert estimates[0] > estimates[1] > estimates[2] > 0


@given(good=st.integers(1, 10), bad=st.integers(1, 10))
def test_what_failed_here_sinks_here_though_it_won_elsewhere(good: int, bad: int) -> None:
    won = [trial(0.5, families=frozenset({"matmul"}))] * good
    failed = [trial(0.0, fate="failed")] * (bad + 10)
    there = replace(HERE, families=frozenset({"matmul"}))
    assert effect(*won, *failed).gain < 0 < effect(*won, *failed[:1], where=there).gain


def test_evidence_from_elsewhere_never_counts_for_all() -> None:
    elsewhere = effect(*[trial(0.6, architecture="gfx942")] * 5000).gain
    other = effect(*[trial(0.6, families=frozenset({"matmul"}))] * 5000).gain
    assert (elsewhere, other) == (
        pytest.approx(0.4, abs=0.01),
        pytest.approx(0.2, abs=0.01),
    )


def test_without_other_evidence_an_estimate_is_n_of_n_and_the_prior() -> None:
    for count in (1, 3, 20):
        found = effect(*[trial(0.3)] * count)
        assert found.gain == pytest.approx(0.3 * count / (count + PRIOR))


def test_a_question_that_says_nothing_of_its_place_takes_all_evidence_as_from_elsewhere() -> None:
    trials = [trial(0.3), trial(0.3, families=frozenset({"matmul"}), architecture="gfx942")]
    assert effect(*trials, where=Where()).weights == (0.0, 0.0, 2.0)


def test_one_lucky_measurement_is_bounded() -> None:
    assert effect(trial(50.0)).gain == effect(trial(MOST)).gain


def test_a_quoted_passage_has_its_share_only() -> None:
    assert 0 < effect(trial(share=0.1)).gain < effect(trial()).gain
