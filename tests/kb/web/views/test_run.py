from __future__ import annotations

from kb.web.views.run import run
from kb.web.views.tree import tree


def test_a_run_tells_its_way_to_the_best_and_what_became_of_the_rest(runs, look):
    view = run(look(), runs.small().run, {})
    assert [one.number for one in view.path] == [0, 3]
    assert view.path[1].gain == 1.5
    assert dict(view.outcomes) == {"passed": 2, "wrong": 1, "build_failed": 1}
    assert [point.outcome for point in view.points] == ["passed", "build_failed", "wrong", "passed"]
    assert view.source.startswith("import torch")
    assert ("precision", "strict") in view.settings


def test_candidates_are_filtered_by_outcome_and_by_words_of_idea_or_reason(runs, look):
    sources, name = look(), runs.small().run

    def found(**query: str) -> list[int]:
        return [row.one.number for row in run(sources, name, query).table.rows]

    assert found(outcome="passed") == [0, 3]
    assert found(q="declared") == [1]
    assert found(q="unroll") == [1, 2]
    assert found(sort="speedup") == [3, 0, 1, 2]
    assert found(outcome="nothing") == []


def test_runs_of_the_same_task_are_named_to_compare_with(runs, look):
    first, second, _ = runs.small(), runs.small(), runs.small("other")
    assert [one.run for one in run(look(), first.run, {}).others] == [second.run]


class TestTree:
    def test_candidates_are_gathered_by_idea_under_what_the_idea_was_for(self, runs, look):
        view = tree(look(), runs.small().run)
        assert [[leaf.number for leaf in group.leaves] for group in view.groups] == [
            [0],
            [1, 2],
            [3],
        ]
        assert [group.above for group in view.groups] == [None, None, 0]
        assert [group.on_path for group in view.groups] == [True, False, True]
        assert [group.leads for group in view.groups] == [True, False, False]
        assert view.most == 3.0

    def test_of_many_ideas_those_that_led_to_nothing_are_folded_and_no_candidate_is_lost(
        self, runs, look, passed_outcome, new_idea
    ):
        record = runs.begin()
        for round in range(6):
            parent = None if round == 0 else (round - 1) * 5
            runs.propose(record, round, parent, *(new_idea(f"{round}.{n}") for n in range(5)))
            for n in range(5):
                runs.node(
                    record, (round, n, 0, 0), passed_outcome(2.0 + round - n / 10), parent=parent
                )
        whole, folded = (tree(look(), record.run, many=many) for many in (100, 3))
        assert len(whole.groups) == 30
        assert len(folded.groups) == 12
        assert folded.folded == 24
        for view in (whole, folded):
            numbers = [leaf.number for group in view.groups for leaf in group.leaves]
            assert sorted(numbers) == list(range(30))
        assert [group.on_path for group in folded.groups] == [True, False] * 6
        assert [group.above for group in folded.groups][2:] == [0, 0, 2, 2, 4, 4, 6, 6, 8, 8]
