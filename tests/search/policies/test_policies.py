from __future__ import annotations

import pytest
from policy_contract import PolicyContract, attempt, numbers

from kb.errors import ConfigError
from search.policies import POLICIES, Policy, make_policy
from search.settings import SearchSettings


class TestBuiltins(PolicyContract):
    @pytest.fixture(params=[name for name in POLICIES if name != "best-of-n"])
    def policy(self, request: pytest.FixtureRequest) -> Policy:
        return POLICIES.create(request.param)


class TestBestOfN(PolicyContract):
    grows = False

    @pytest.fixture
    def policy(self) -> Policy:
        return POLICIES.create("best-of-n")


@pytest.mark.parametrize("name", ["beam", "elites", "greedy", "uct"])
def test_the_fastest_of_a_kind_is_a_parent(name):
    attempts = [attempt(0, 1.0), attempt(1, 3.0), attempt(2, 2.0)]
    assert numbers(POLICIES.create(name), attempts)[0] == 1


def test_beam_takes_the_older_of_two_equal_sources_once():
    attempts = [attempt(0, 2.0, "same"), attempt(1, 2.0, "same"), attempt(2, 1.0)]
    assert numbers(POLICIES.create("beam"), attempts) == [0, 2]


def test_an_unknown_policy_lists_the_known_ones():
    with pytest.raises(ConfigError, match=r"unknown policy 'beem' .*did you mean 'beam'.*greedy"):
        POLICIES.create("beem")


def test_a_setting_of_a_policy_reaches_it_and_that_of_another_is_refused():
    greedy, curious = (
        make_policy(SearchSettings(policy="uct", exploration=weight)) for weight in (0.0, 5.0)
    )
    attempts = [attempt(0, 3.0), attempt(1, 2.9), attempt(2, 3.5, parent=0, round=1)]
    assert numbers(greedy, attempts, 2) == [2]
    assert numbers(curious, attempts, 2) == [1]
    with pytest.raises(ConfigError, match="policy 'beam' has no setting 'exploration'"):
        make_policy(SearchSettings(exploration=1.0))
