from __future__ import annotations

from dataclasses import replace

import pytest

from kb.app.bench.figures import curve, figures
from kb.app.bench.rows import SuiteRow
from search.outcome import Ratio


def ratio(value: float) -> Ratio:
    return Ratio(ratio=value, low=value * 0.9, high=value * 1.1)


def solved(problem: str, eager: float, compiled: float | None) -> SuiteRow:
    speedup = {"eager": ratio(eager)}
    if compiled is not None:
        speedup["compile"] = ratio(compiled)
    return SuiteRow(problem=problem, key="k", status="solved", speedup=speedup, roofline=0.5)


ROWS = (
    solved("a", 4.0, 2.0),
    solved("b", 1.0, 0.5),
    SuiteRow(problem="c", key="k", status="unsolved", reason="no candidate passed"),
    SuiteRow(problem="d", key="k", status="not_judged", reason="too large"),
)


def against(rows, name):
    return next(one for one in figures(rows).against if one.baseline == name)


def test_a_degenerate_problem_is_counted_apart():
    constant = replace(solved("e", 1000.0, 1000.0), degenerate=True)
    told, without = figures((*ROWS, constant)), figures(ROWS)
    assert told.degenerate == 1
    assert replace(told, degenerate=0) == without
    assert curve((*ROWS, constant), "eager") == curve(ROWS, "eager")


def test_what_is_not_solved_counts_in_every_share():
    told = figures(ROWS)
    assert (told.problems, told.judged, told.solved) == (4, 3, 2)
    assert against(ROWS, "eager").fast == {"0": 0.5, "1": 0.25, "1.5": 0.25, "2": 0.25}


def test_a_speed_up_that_equals_p_is_not_faster_than_p():
    assert against(ROWS, "compile").fast["2"] == 0.0
    assert against(ROWS, "compile").fast["1.5"] == 0.25


def test_means_are_of_the_solved_and_of_all_with_failures_as_one():
    eager = against(ROWS, "eager")
    assert (eager.solved, eager.number) == (pytest.approx(2.0), 2)
    assert (eager.whole, eager.of) == (pytest.approx(4.0**0.25), 4)


def test_a_problem_solved_where_a_baseline_could_not_run_is_left_out_of_its_figures_alone():
    rows = (*ROWS, solved("e", 3.0, None))
    compiled = against(rows, "compile")
    assert (compiled.of, compiled.without, compiled.number) == (4, 1, 2)
    assert against(rows, "eager").of == 5


def test_the_curve_falls_to_nothing_at_the_largest_speed_up():
    assert curve(ROWS, "eager") == [(0.0, 0.5), (1.0, 0.25), (4.0, 0.0)]
    assert curve(ROWS[2:], "eager") == curve((), "eager") == []


def test_the_share_of_the_roofline_is_the_median() -> None:
    rows = [replace(ROWS[0], roofline=share) for share in (0.8, 0.2)]
    assert figures(rows).roofline == pytest.approx(0.5)


def test_a_suite_of_which_nothing_is_solved_has_no_mean_of_the_solved():
    eager = against(ROWS[2:], "eager")
    assert eager.solved is None
    assert eager.whole == pytest.approx(1.0)
