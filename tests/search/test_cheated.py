"""What is made of cheats: the next best are measured, and their finds are left out."""

from __future__ import annotations

import pytest

from search.attempt import Draft, Idea
from search.graph import Graph, Node, Slot, Step
from search.lessons.changes import trials
from search.outcome import Outcome, Passed, Ratio, Refused, Wrong
from search.runs.report import build_report
from search.second_look import MOST, measured_again
from search.won_or_lost import cheated, gains

REFUSED = Refused(reason="it returns an answer that it kept", trick="cached-output")


def passed(speedup: float) -> Passed:
    ratio = Ratio(ratio=speedup, low=speedup * 0.99, high=speedup * 1.01)
    return Passed(
        seconds=1 / speedup, samples=9, speedup={"eager": ratio}, max_error=0.0, allowed_error=1.0
    )


def graph_of(*outcomes: Outcome, parents: dict[int, int] | None = None) -> Graph:
    graph = Graph()
    for number, outcome in enumerate(outcomes):
        graph.add(
            Node(
                number=number,
                step=Step(Slot(0, 0), number, 0),
                parent=(parents or {}).get(number),
                idea=Idea(title=f"idea {number}", text="text", category="memory access"),
                draft=Draft(source=f"source {number}"),
                outcome=outcome,
            )
        )
    return graph


def test_where_the_first_are_cheats_the_next_best_are_measured() -> None:
    graph = graph_of(*(passed(speed) for speed in (20, 19, 18, 17, 3, 2.9, 1)))
    asked: list[int] = []

    def measure(attempt):
        asked.append(attempt.number)
        return REFUSED if attempt.number < 4 else attempt.outcome

    confirmed = measured_again(graph, measure)
    assert asked == [0, 1, 2, 3, 4, 5]
    assert {number for number, outcome in confirmed.items() if outcome.kind == "passed"} == {4, 5}


def test_others_take_the_places_of_finalists_that_fall() -> None:
    graph = graph_of(*(passed(speed) for speed in (20, 19.8, 19.7, 19.6, 19.5, 3)))
    confirmed = measured_again(graph, lambda one: REFUSED if one.number in {1, 2} else one.outcome)
    assert {number for number, outcome in confirmed.items() if outcome.kind == "passed"} == {
        0,
        3,
        4,
    }


def test_where_all_finalists_stand_nothing_more_is_measured() -> None:
    graph = graph_of(*(passed(speed) for speed in (20, 19.8, 19.7, 19.6)))
    assert sorted(measured_again(graph, lambda one: one.outcome)) == [0, 1, 2]


def test_what_a_longer_measurement_cannot_put_first_is_no_finalist() -> None:
    graph = graph_of(*(passed(speed) for speed in (20, 19.8, 18)))
    assert sorted(measured_again(graph, lambda one: one.outcome)) == [0, 1]


def test_a_run_of_cheats_alone_is_not_measured_for_ever() -> None:
    graph = graph_of(*(passed(100 - number) for number in range(50)))
    assert len(measured_again(graph, lambda _: REFUSED)) <= MOST
    assert measured_again(graph_of(REFUSED), lambda _: REFUSED) == {}


def test_a_report_names_what_passed_first_and_not_again() -> None:
    graph = graph_of(passed(20), passed(2))
    confirmed = {0: REFUSED, 1: passed(2)}
    about = {
        "run": "r",
        "task": "t",
        "target": "x",
        "language": "cpp",
        "author": "llm",
        "baselines": {},
    }
    report = build_report(about, graph, confirmed, stop_reason="done", seconds=1.0)
    assert report["best"]["node"] == 1
    assert report["withdrawn"] == [{"node": 0, "outcome": "refused", "reason": REFUSED.reason}]
    fine = build_report(about, graph, {0: passed(20)}, stop_reason="done", seconds=1.0)
    assert "withdrawn" not in fine


@pytest.mark.parametrize(
    ("confirmed", "left"),
    [
        ({}, {1, 2, 3, 4, 5}),
        ({1: REFUSED}, {3, 4, 5}),
        ({1: REFUSED, 2: passed(4)}, {2, 3, 4, 5}),
        ({1: Wrong(reason="no")}, {1, 2, 3, 4, 5}),
    ],
    ids=["at once", "later", "its child stood", "wrong later"],
)  # fmt: skip
def test_cheats_and_what_was_made_of_them_teach_nothing(
    confirmed: dict[int, Outcome], left: set[int]
) -> None:
    outcomes = (REFUSED, passed(5), passed(4), passed(3), Wrong(reason="no"), passed(2))
    # 2 was made of 1; 5 is 0, mended.
    graph = graph_of(*outcomes, parents={2: 1, 5: 0})
    assert set(range(6)) - cheated(graph.attempts(), confirmed) == left
    assert {trial.gain.attempt.number for trial in trials(graph, confirmed)} == left


def test_what_was_made_of_a_cheat_and_stood_is_measured_against_the_reference() -> None:
    graph = graph_of(passed(20), passed(10), passed(9), parents={1: 0, 2: 1})
    confirmed = {0: REFUSED, 2: passed(9)}
    found = {
        one.attempt.number: one for one in gains(graph.attempts(), confirmed) if not one.cheated
    }
    assert set(found) == {2}
    assert found[2].start is None
