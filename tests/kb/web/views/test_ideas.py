from __future__ import annotations

import pytest

from kb.web.sources import NotFound
from kb.web.views.ideas import idea, ideas, targets
from search.outcome import BuildFailed

IDEA = "keep-the-row-in-cache"


@pytest.fixture
def twice(runs, passed_outcome, new_idea):
    """One idea in two runs on two targets: won, lost on a parent, mended after a failure, and failed."""
    first = runs.begin("rows", target="zen4")
    kept = new_idea("Keep it", record=IDEA)
    runs.propose(
        first, 0, None, kept, new_idea("Other"), retrieved=(f"kb:ideas/{IDEA}.md", "kb:ideas/x.md")
    )
    runs.node(first, (0, 0, 0, 0), passed_outcome(2.0))
    runs.propose(first, 1, 0, kept)
    runs.node(first, (1, 0, 0, 0), passed_outcome(1.0), parent=0)
    runs.finish(first)
    second = runs.begin("rows", target="h200")
    runs.propose(second, 0, None, kept, retrieved=(f"kb:ideas/{IDEA}.md",))
    runs.node(second, (0, 0, 0, 0), BuildFailed(reason="no"))
    runs.node(second, (0, 0, 0, 1), passed_outcome(8.0), parent=0)
    runs.node(second, (0, 0, 1, 0), BuildFailed(reason="no"))
    runs.finish(second)
    return first, second


def test_an_idea_is_told_over_runs_by_place_with_the_nodes_behind_it(twice, look):
    view = idea(look(), IDEA)
    counts = view.counts
    assert (counts.won, counts.even, counts.lost, counts.failed) == (2, 0, 1, 1)
    assert view.retrieved == 2
    assert {run for run, _, _ in view.runs} == {"rows-1", "rows-2"}
    assert set(view.targets) == {"zen4", "h200"}
    assert {(one.run.run, one.node, one.fate) for one in view.trials} == {
        ("rows-1", 0, "won"), ("rows-1", 1, "lost"), ("rows-2", 1, "won"), ("rows-2", 2, "failed"),
    }  # fmt: skip


def test_a_gain_is_over_what_an_implementation_started_from(twice, look):
    by_node = {(one.run.run, one.node): one for one in idea(look(), IDEA).trials}
    child = by_node["rows-1", 1]
    assert (child.base, child.ratio) == (0, 0.5)
    mended = by_node["rows-2", 1]
    assert (mended.base, mended.ratio) == (None, 8.0), "what it mended did not pass"


def test_what_was_taken_over_from_an_earlier_run_is_listed_and_not_counted(
    runs, look, passed_outcome, new_idea
):
    for _ in range(2):
        record = runs.begin()
        runs.propose(record, 0, None, new_idea("A", record=IDEA))
        node = runs.node(record, (0, 0, 0, 0), None)
        record.add_outcome(node, passed_outcome(2.0), key="the same", elapsed=1.0)
        runs.finish(record)
    view = idea(look(), IDEA)
    assert view.counts.tried == 1
    assert [(one.run.run, one.again) for one in sorted(view.trials, key=lambda t: t.run.run)] == [
        ("rows-1", False), ("rows-2", True),
    ]  # fmt: skip


def test_the_list_of_ideas_is_filtered_by_target_and_words(twice, look):
    sources = look()
    assert [row.key for row in ideas(sources, {}).rows] == [IDEA]
    assert ideas(sources, {"target": "h200"}).rows[0].counts.tried == 2
    assert ideas(sources, {"target": "mi300x"}).rows == ()
    assert ideas(sources, {"q": "nothing of the kind"}).rows == ()
    assert [row.key for row in ideas(sources, {"known": "record"}).rows] == [IDEA], (
        "though this home has no records"
    )
    assert ideas(sources, {"known": "own"}).rows == ()


def test_ideas_on_one_way_are_told_as_combined(runs, look, passed_outcome, new_idea):
    record = runs.small()
    view = idea(look(), IDEA)
    assert [(one.key, one.times) for one in view.partners] == [("Write past the caches", 1)]
    assert record.run in {one.run.run for one in view.trials}


def test_two_targets_of_one_idea_stand_side_by_side(twice, look):
    view = targets(look(), IDEA, "zen4", "h200")
    assert (view.counts[0].won, view.counts[1].won) == (1, 1)
    assert (view.counts[0].lost, view.counts[1].failed) == (1, 1)
    with pytest.raises(NotFound):
        targets(look(), IDEA, "zen4", "mi300x")


def test_an_idea_that_nobody_knows_is_not_found(twice, look):
    with pytest.raises(NotFound):
        idea(look(), "nobody")


def test_what_the_second_look_withdrew_is_no_win_of_its_idea(runs, look, passed_outcome, new_idea):
    record = runs.begin()
    runs.propose(record, 0, None, new_idea("A", record=IDEA))
    runs.node(record, (0, 0, 0, 0), passed_outcome(9.0))
    sources = look()
    assert sources.stories.story(record.run).candidates[0].outcome == "passed"
    report = {"candidates": 1, "outcomes": {"passed": 1}, "best": None,
              "withdrawn": [{"node": 0, "outcome": "refused", "reason": "it keeps the answer"}]}  # fmt: skip
    record.finish(report)
    (told,) = sources.stories.story(record.run).candidates
    assert (told.outcome, told.reason) == ("refused", "it keeps the answer")
    counts = idea(sources, IDEA).counts
    assert (counts.won, counts.failed) == (0, 1)
