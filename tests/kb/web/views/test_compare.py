from __future__ import annotations

from kb.web.views.compare import compare_nodes, compare_runs


def test_two_runs_of_a_task_tell_who_reached_what_when(runs, look, passed_outcome, new_idea):
    slow, fast = runs.begin(), runs.begin()
    for record, gains in ((slow, (1.2, 2.2, 3.2)), (fast, (3.5, 1.0))):
        runs.propose(record, 0, None, *(new_idea(str(gain)) for gain in gains))
        for place, gain in enumerate(gains):
            runs.node(record, (0, place, 0, 0), passed_outcome(gain))
        runs.finish(record)
    view = compare_runs(look(), slow.run, fast.run)
    assert view.same
    assert view.verdicts["eager"] == "faster"
    steps = {step.ratio: step for step in view.steps}
    assert (steps[2.0].one.number, steps[2.0].one.place, steps[2.0].one.second) == (1, 2, 2.0)
    assert steps[2.0].other.place == 1
    assert steps[3.0].one.place == 3
    assert 5.0 not in steps


def test_runs_of_different_targets_are_said_to_be(runs, look):
    one, other = runs.small(), runs.small("rows", target="h200")
    assert not compare_runs(look(), one.run, other.run).same


def test_two_nodes_are_compared_where_they_are_of_one_task(runs, look):
    one, other = runs.small(), runs.small()
    stranger = runs.small("other")
    at = {"run": one.run, "node": "0", "other": other.run, "second": "3"}
    view = compare_nodes(look(), at)
    assert view.gain.ratio == 1.5
    assert view.fate == "won"
    assert [line.text for line in view.lines if line.mark == "+"] == ["# faster"]
    view = compare_nodes(look(), {**at, "other": stranger.run})
    assert not view.comparable
    assert view.gain is None
