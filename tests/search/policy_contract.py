"""Attempts that tests of policies make up, and the contract of every policy."""

from __future__ import annotations

from random import Random

from search.attempt import Attempt, Draft, Idea
from search.outcome import Passed, Ratio, Wrong
from search.policies import Policy
from search.standings import Standings, standings_of


def attempt(
    number: int,
    ratio: float | None,
    source: str | None = None,
    *,
    parent: int | None = None,
    round: int = 0,
    category: str = "memory access",
) -> Attempt:
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
    return Attempt(
        number=number,
        parent=parent,
        round=round,
        branch=0,
        idea=Idea(title=str(number), text="", category=category),
        draft=Draft(source=source or str(number)),
        outcome=outcome,
    )


def numbers(policy: Policy, attempts: list[Attempt] | Standings, round: int = 1) -> list[int]:
    standings = attempts if isinstance(attempts, Standings) else standings_of(attempts)
    return [chosen.number for chosen in policy.select(standings, round, Random(0))]


class PolicyContract:
    """What every policy promises."""

    grows = True  # from what was found; False for a policy that only samples

    def test_nothing_that_failed_is_a_parent(self, policy: Policy):
        chosen = numbers(policy, [attempt(0, None), attempt(1, 0.5), attempt(2, None)])
        assert chosen == ([1] if self.grows else [])

    def test_with_nothing_that_passed_it_starts_afresh(self, policy: Policy):
        assert numbers(policy, [attempt(0, None)]) == []
        assert numbers(policy, [], 0) == []

    def test_the_same_attempts_and_seed_give_the_same_parents(self, policy: Policy):
        attempts = [attempt(n, 1 + (n * 7 % 5) / 10) for n in range(20)]
        assert numbers(policy, attempts, 3) == numbers(policy, attempts, 3)

    def test_standings_that_were_asked_before_give_what_new_ones_give(self, policy: Policy):
        # A resumed run makes them anew; an unbroken one has added to them round by round.
        kept, rng = Standings(), Random(4)
        for number in range(60):
            round, parent = number // 6, None
            if round:
                parents = numbers(policy, kept, round)
                parent = parents[number % len(parents)] if parents else None
            if number % 6 == 0:
                kept.propose(parent, round)
            ratio = None if rng.random() < 0.3 else rng.uniform(0.5, 3)
            kept.add(attempt(number, ratio, parent=parent, round=round))
        anew = Standings()
        for one in kept.attempts:
            if one.number % 6 == 0:
                anew.propose(one.parent, one.round)
            anew.add(one)
        assert numbers(policy, anew, 10) == numbers(policy, kept, 10)

    def test_no_parent_is_chosen_twice_and_the_best_comes_first(self, policy: Policy):
        attempts = [attempt(0, 1.0), attempt(1, 3.0), attempt(2, 2.0)]
        chosen = numbers(policy, attempts)
        assert len(set(chosen)) == len(chosen)
        assert chosen == sorted(chosen, key=lambda number: -attempts[number].merit)
        assert bool(chosen) is self.grows
