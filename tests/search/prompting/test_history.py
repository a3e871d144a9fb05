import pytest

from search.attempt import Attempt, Draft, Idea
from search.outcome import BuildFailed, Outcome, Passed, Ratio
from search.prompting.describe import trials_of_ideas
from search.prompting.history import choose_memory, plateau, recall
from search.standings import standings_of
from search.won_or_lost import gains


def passed(gain: float) -> Passed:
    return Passed(
        seconds=1e-3 / gain,
        samples=9,
        speedup={"eager": Ratio(ratio=gain, low=gain, high=gain)},
        max_error=0.0,
        allowed_error=1.0,
    )


def attempt(
    number: int, parent: int | None, round: int, outcome: Outcome, idea: str = ""
) -> Attempt:
    return Attempt(
        number=number,
        parent=parent,
        round=round,
        branch=0,
        idea=Idea(title=idea or f"idea {number}", text="text", category="memory access"),
        draft=Draft(source=f"s{number}"),
        outcome=outcome,
    )


TREE = [
    attempt(0, None, 0, passed(1.2)),
    attempt(1, None, 0, passed(0.8)),
    attempt(2, 0, 1, BuildFailed(reason="no ;"), "tile"),
    attempt(3, 2, 1, passed(1.6), "tile"),  # mended
    attempt(4, 0, 1, passed(1.1)),
    attempt(5, 3, 2, passed(1.5)),
]


def test_what_is_near_a_node_is_its_way_and_what_was_made_upon_it() -> None:
    near = recall(TREE[3], TREE)
    assert near.trajectory == {0, 2, 3}
    assert near.siblings == {5}
    assert recall(TREE[0], TREE).siblings == {2, 3, 4}
    assert recall(None, TREE).siblings == {0, 1}


@pytest.mark.parametrize(
    ("parent", "memory"),
    [(None, "siblings"), (TREE[0], "siblings"), (TREE[3], "both"), (TREE[5], "trajectory")],
)
def test_memory_is_chosen_by_the_place_in_the_graph(parent, memory) -> None:
    assert choose_memory("rule", parent, standings_of(TREE), 3, last=False) == memory


def test_two_rounds_without_a_gain_give_the_last_parent_a_clean_slate() -> None:
    attempts = [*TREE, attempt(6, 3, 3, passed(1.6))]
    flat = standings_of(attempts)
    assert not plateau(flat, 3)
    assert plateau(flat, 4)
    assert choose_memory("rule", attempts[3], flat, 4, last=True) == "clean"
    assert choose_memory("rule", attempts[3], flat, 4, last=False) == "both"
    assert not plateau(flat, 5), "a round between two goes on from the best"
    assert plateau(flat, 6)
    assert not plateau(standings_of([]), 4), "where nothing passed, everything is a clean slate"


def test_a_task_may_fix_what_is_told() -> None:
    assert choose_memory("trajectory", TREE[0], standings_of(TREE), 2, last=True) == "trajectory"


def test_what_lost_or_failed_is_told_as_that_with_its_numbers() -> None:
    trials = {trial.title: trial for trial in trials_of_ideas(gains(TREE), recall(TREE[3], TREE))}
    assert trials["idea 1"].fate == "lost"
    assert trials["tile"].fate == "won"
    assert trials["tile"].place == "trajectory"
    assert trials["idea 5"].fate == "lost"
    assert (
        "0.94 times the speed of the program that it was made from (0.94 to 0.94)"
        in trials["idea 5"].results
    )
    assert trials["idea 5"].place == "siblings"
    assert trials["idea 4"].place == "elsewhere"
    failed = trials_of_ideas(gains([attempt(0, None, 0, BuildFailed(reason="no ;"))]))
    assert failed[0].fate == "failed"
    assert failed[0].results == ("1 of 1 did not build: no ;",)
