from __future__ import annotations

from policy_contract import attempt, numbers

from search.policies.islands import Islands


def test_the_islands_take_turns():
    attempts = [attempt(0, 3.0), attempt(1, 2.0), attempt(2, 1.0)]
    policy = Islands(islands=3, migration=9)
    assert [numbers(policy, attempts, round) for round in (1, 2, 3)] == [[0, 2], [1, 2], [0, 1]]


def test_a_child_lives_where_its_parent_does():
    attempts = [attempt(0, 3.0), attempt(1, 2.0), attempt(2, 9.0, parent=1, round=1)]
    assert numbers(Islands(islands=2, migration=9), attempts, 2) == [2, 0]


def test_at_a_migration_the_best_goes_to_the_next_island():
    before = [attempt(0, 3.0), attempt(1, 2.0)]
    after = [*before, attempt(2, 0.5, parent=0, round=2)]
    policy = Islands(islands=2, migration=2)
    assert numbers(policy, before, 1) == [0, 1]
    assert numbers(policy, after, 3) == [0], "it is the best of both now"
