from __future__ import annotations

from random import Random

import pytest

from kb.errors import ConfigError
from search.attempt import Attempt, Draft, Idea
from search.outcome import Passed, Ratio, Wrong
from search.policies import POLICIES, Policy


def attempt(number: int, ratio: float | None, source: str | None = None) -> Attempt:
    outcome = (
        Wrong(reason="no")
        if ratio is None
        else Passed(
            seconds=1 / ratio,
            samples=1,
            speedup={"eager": Ratio(ratio=ratio, low=ratio, high=ratio)},
            max_error=0,
            allowed_error=0,
        )
    )
    idea = Idea(title=str(number), text="", category="memory access")
    draft = Draft(source=source or str(number))
    return Attempt(
        number=number, parent=None, round=0, branch=0, idea=idea, draft=draft, outcome=outcome
    )


class PolicyContract:
    """What every policy promises."""

    def test_nothing_that_failed_is_a_parent(self, policy: Policy):
        attempts = [attempt(0, None), attempt(1, 0.5), attempt(2, None)]
        assert [a.number for a in policy.select(attempts, 1, Random(0))] == [1]

    def test_with_nothing_that_passed_it_starts_afresh(self, policy: Policy):
        assert policy.select([attempt(0, None)], 1, Random(0)) == ()
        assert policy.select([], 0, Random(0)) == ()

    def test_the_same_attempts_and_seed_give_the_same_parents(self, policy: Policy):
        attempts = [attempt(n, 1 + (n * 7 % 5) / 10) for n in range(20)]
        assert policy.select(attempts, 3, Random(1)) == policy.select(attempts, 3, Random(1))

    def test_the_best_comes_first(self, policy: Policy):
        attempts = [attempt(0, 1.0), attempt(1, 3.0), attempt(2, 2.0)]
        assert policy.select(attempts, 1, Random(0))[0].number == 1


class TestBuiltins(PolicyContract):
    @pytest.fixture(params=list(POLICIES))
    def policy(self, request: pytest.FixtureRequest) -> Policy:
        return POLICIES.create(request.param)


def test_beam_takes_the_older_of_two_equal_sources_once():
    attempts = [attempt(0, 2.0, "same"), attempt(1, 2.0, "same"), attempt(2, 1.0)]
    chosen = POLICIES.create("beam").select(attempts, 1, Random(0))
    assert [a.number for a in chosen] == [0, 2]


def test_an_unknown_policy_lists_the_known_ones():
    with pytest.raises(ConfigError, match=r"unknown policy 'beem' .*did you mean 'beam'.*greedy"):
        POLICIES.create("beem")
