from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from search.attempt import Attempt, Draft, Idea
from search.outcome import BuildFailed, Checked, Outcome, Passed, Ratio, Wrong
from search.won_or_lost import Gain, best, fate_of, gains, origin, over

FAILED = BuildFailed(reason="no ;")
COMPILED = Checked(kernels=(), max_error=None, allowed_error=None)


def passed(speedup: float, half: float = 0.01, seconds: float = 1e-3) -> Passed:
    return Passed(
        seconds=seconds,
        samples=9,
        speedup={
            "eager": Ratio(ratio=speedup, low=speedup * (1 - half), high=speedup * (1 + half))
        },
        max_error=0.0,
        allowed_error=1.0,
    )


def attempt(
    number: int, parent: int | None, outcome: Outcome, idea: str = "", round: int = 0
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


def started(found: list[Gain]) -> list[int | None]:
    return [None if one.start is None else one.start.number for one in found]


def test_a_candidate_started_from_the_nearest_ancestor_of_another_idea_that_passed() -> None:
    tree = [
        attempt(0, None, passed(2.0)),
        attempt(1, 0, FAILED, "tile", 1),
        attempt(2, 1, passed(3.0), "tile", 1),  # mended
        attempt(3, 2, passed(3.3), "tile", 1),  # tuned
        attempt(4, 3, passed(3.0), "tile", 2),  # the same idea once more, upon that one
        attempt(5, 1, passed(4.0), "upon a failure", 2),
    ]
    assert started(list(gains(tree))) == [None, 0, 0, 0, 3, 0]
    known = {one.number: one for one in tree}
    assert [origin(one, known) for one in tree] == [None, 0, 0, 0, 3, 1]


def test_a_gain_is_the_quotient_of_speed_ups_and_no_seconds_count() -> None:
    tree = [attempt(0, None, passed(2.0)), attempt(1, 0, passed(3.0, seconds=9.0), round=1)]
    first, second = gains(tree)
    assert first.ratio == passed(2.0).speedup["eager"]
    assert second.ratio is not None
    assert second.ratio.ratio == pytest.approx(1.5)
    assert (second.ratio.low, second.ratio.high) == pytest.approx((2.97 / 2.02, 3.03 / 1.98))
    assert second.base == tree[0].outcome


def test_what_was_measured_again_counts_instead_of_the_first_measurement() -> None:
    tree = [
        attempt(0, None, passed(2.0)),
        attempt(1, 0, passed(9.0), round=1),
        attempt(2, 1, passed(4.0), round=2),
    ]
    again = list(gains(tree, {1: passed(3.0)}))
    assert again[1].outcome == passed(3.0)
    assert again[1].ratio is not None
    assert again[1].ratio.ratio == pytest.approx(1.5)
    assert again[2].fate == "won"
    # What failed when it was measured again is nothing to compare with.
    assert started(list(gains(tree, {1: FAILED}))) == [None, 0, 0]


@pytest.mark.parametrize(
    ("outcome", "fate"),
    [
        (passed(1.02), "won"),
        (passed(1.005), "even"),
        (passed(1.5, half=0.5), "even"),
        (passed(0.98), "lost"),
        (FAILED, "failed"),
        (COMPILED, None),
    ],
)
def test_an_interval_that_holds_one_is_even_however_large_the_ratio(outcome, fate) -> None:
    (gain,) = gains([attempt(0, None, outcome)])
    assert gain.fate == fate


@given(mine=st.floats(0.1, 10), theirs=st.floats(0.1, 10), half=st.floats(0, 0.5))
def test_of_two_programs_one_won_exactly_where_the_other_lost(
    mine: float, theirs: float, half: float
) -> None:
    one, other = passed(mine, half), passed(theirs, half)
    forward, back = over(one, other), over(other, one)
    assert forward.low <= forward.ratio <= forward.high
    assert forward.ratio * back.ratio == pytest.approx(1)
    if abs(forward.low - 1) > 1e-9 and abs(forward.high - 1) > 1e-9:
        opposite = {"won": "lost", "lost": "won", "even": "even"}
        assert fate_of(back) == opposite[fate_of(forward)]


def test_the_largest_gain_speaks_for_an_idea_and_the_commonest_failure_where_none_passed() -> None:
    tree = [
        attempt(0, None, passed(1.1)),
        attempt(1, None, passed(1.4)),
        attempt(2, None, FAILED),
        attempt(3, None, Wrong(reason="all")),
        attempt(4, None, FAILED),
        attempt(5, None, COMPILED),
    ]
    found = list(gains(tree))
    assert best(found).attempt.number == 1
    assert best(found[2:5]).attempt.number == 4
    assert best(found[2:]).attempt.number == 5
