from __future__ import annotations

from policy_contract import attempt, numbers

from search.policies.uct import Uct
from search.standings import Standings, standings_of


def test_what_was_never_tried_upon_is_taken_when_it_is_best():
    attempts = [attempt(0, 2.0), attempt(1, 1.9), attempt(2, None)]
    assert numbers(Uct(), attempts) == [0]


def test_a_node_whose_round_failed_gives_way_to_its_sibling():
    attempts = [attempt(0, 2.0), attempt(1, 1.9), attempt(3, 1.0)]
    attempts.append(attempt(2, None, parent=0, round=1))
    assert numbers(Uct(), attempts, 2) == [1]


def test_a_round_in_which_the_author_had_nothing_counts_as_a_visit():
    standings = standings_of([attempt(0, 2.0), attempt(1, 1.9), attempt(2, 1.0)])
    standings.propose(0, 1)
    assert numbers(Uct(), standings, 2) == [1]


def test_what_mended_a_failure_stands_in_its_place():
    mended = [attempt(0, 1.0), attempt(1, None, parent=0, round=1)]
    mended.append(attempt(2, 3.0, parent=1, round=1))
    assert numbers(Uct(exploration=0.1), mended, 2) == [2]


def test_a_tuned_setting_stands_beside_what_it_was_tuned_from():
    found = [attempt(0, 1.0), attempt(1, 1.5, parent=0)]  # both of round 0: one idea
    standings = standings_of(found)
    standings.propose(0, 1)
    standings.add(attempt(2, None, parent=0, round=1))
    assert numbers(Uct(), standings, 2) == [1]


def test_the_reference_is_due_again_when_four_rounds_were_spent():
    standings = Standings()
    standings.propose(None, 0)
    standings.add(attempt(0, 1.0))
    for round in range(1, 4):
        assert numbers(Uct(), standings, round) == [round - 1]
        standings.propose(round - 1, round)
        standings.add(attempt(round, 1.0 + round, parent=round - 1, round=round))
    assert numbers(Uct(), standings, 4) == []
