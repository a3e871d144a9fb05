from __future__ import annotations

import math

import pytest

from search.portfolio.headroom import Course, choose, expected_gain


def course(*best: float, roofline: float = 0.1, cost: float = 0.0, ended: bool = False) -> Course:
    return Course(best=best, cost=cost or len(best), roofline=roofline, ended=ended)


def test_every_task_gets_a_round_before_one_gets_two():
    assert choose([course(9.0), course(), course()]) == 1


def test_of_two_tasks_with_one_round_the_one_with_more_headroom_is_next():
    assert choose([course(9.0, roofline=0.8), course(1.1, roofline=0.05)]) == 1


def test_of_two_with_the_same_headroom_the_one_that_still_gains_is_next():
    assert choose([course(2.0, 2.0, 2.0), course(2.0, 2.4, 2.8)]) == 1


def test_a_cheap_round_counts_more_than_a_dear_one_of_the_same_gain():
    assert choose([course(2.0, 2.4, cost=9.0), course(2.0, 2.4, cost=2.0)]) == 1


def test_a_task_at_its_ceiling_has_nothing_to_gain():
    assert expected_gain(course(5.0, 9.0, roofline=1.0)) == 0
    assert expected_gain(course(5.0, 9.0, roofline=0.99)) <= -math.log(0.99)


def test_a_task_without_a_known_roofline_is_expected_to_have_room():
    assert expected_gain(course(2.0, roofline=0.0)) > expected_gain(course(2.0, roofline=0.5))


def test_a_task_that_ended_is_never_chosen():
    assert choose([course(ended=True), course(2.0, ended=True)]) is None


@pytest.mark.parametrize("rounds", [1, 4, 9])
def test_a_round_without_a_gain_lowers_what_is_expected(rounds):
    best = (2.0,) * rounds
    assert expected_gain(course(*best, 2.0)) < expected_gain(course(*best))
