from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import text

from kb.errors import StoreError
from kb.web.reading import open_reader


def test_a_finished_run_is_told_with_its_best_as_it_was_measured_again(runs, look):
    record = runs.small()
    story = look().stories.story(record.run)
    assert story.brief.state == "finished"
    assert story.brief.best.node == 3
    assert story.brief.best.speedup["eager"].ratio == 3.0
    assert story.brief.best.confirmed
    assert [one.outcome for one in story.candidates] == [
        "passed",
        "build_failed",
        "wrong",
        "passed",
    ]
    assert [one.number for one in story.path(3)] == [0, 3]
    assert story.brief.families == ("softmax",)


def test_a_run_that_goes_on_is_read_as_far_as_it_is(runs, look, passed_outcome, new_idea):
    record = runs.begin()
    runs.propose(record, 0, None, new_idea("A"), new_idea("B"))
    runs.node(record, (0, 0, 0, 0), passed_outcome(2.0))
    waiting = runs.node(record, (0, 1, 0, 0), None)
    stories = look().stories
    before = stories.story(record.run)
    assert [one.outcome for one in before.candidates] == ["passed", "pending"]
    assert before.brief.candidates == 1
    assert stories.story(record.run) is before, "nothing new, nothing read"
    record.add_outcome(waiting, passed_outcome(4.0), key="late", elapsed=9.0)
    after = stories.story(record.run)
    assert [one.outcome for one in after.candidates] == ["passed", "passed"]
    assert after.brief.best.node == 1
    assert after.candidates[0] is before.candidates[0], "what was judged is not read again"


def test_the_version_changes_with_every_addition(runs, look, passed_outcome, new_idea):
    record = runs.begin()
    stories = look().stories
    seen = [stories.version(record.run)]
    runs.propose(record, 0, None, new_idea("A"))
    node = runs.node(record, (0, 0, 0, 0), None)
    seen.append(stories.version(record.run))
    record.add_outcome(node, passed_outcome(2.0), key="one", elapsed=3.5)
    seen.append(stories.version(record.run))
    record.finish_search("done")
    seen.append(stories.version(record.run))
    runs.finish(record)
    seen.append(stories.version(record.run))
    assert len(set(seen)) == len(seen)


def test_seconds_are_those_of_the_run_with_pauses_left_out(runs, look):
    record = runs.small()
    assert look().stories.story(record.run).seconds() == [1.0, 2.0, 3.0, 4.0]


def test_tokens_and_seconds_never_fall_along_a_run(runs, look):
    story = look().stories.story(runs.small().run)
    for values in (story.seconds(), story.tokens()):
        assert len(values) == 4
        assert values == sorted(values)


def test_a_run_whose_record_makes_no_sense_is_listed_as_broken(runs, look):
    good, bad = runs.small(), runs.small("other")
    with runs.storage.engine.begin() as connection:
        connection.execute(text("UPDATE runs SET about='[1]' WHERE run=:run"), {"run": bad.run})
    told = {brief.run: brief.state for brief in look().stories.briefs()}
    assert told == {good.run: "finished", bad.run: "broken"}


def test_a_run_whose_figures_make_no_sense_breaks_no_list(runs, look):
    good, bad = runs.small(), runs.small("other")
    report = dict(runs.storage.run(bad.run).report)
    bad.finish({**report, "best": {**report["best"], "seconds": 0.0}})
    sources = look()
    assert {brief.run for brief in sources.stories.briefs()} == {good.run, bad.run}
    assert set(sources.stories.several([good.run, bad.run])) == {good.run}
    assert len(sources.trials.every()) == 1


def test_an_address_finds_its_run_whatever_the_name(runs, look):
    record = runs.begin()
    name = "../<b>evil</b>?x"
    with runs.storage.engine.begin() as connection:
        connection.execute(
            text("UPDATE runs SET run=:to WHERE run=:run"), {"to": name, "run": record.run}
        )
    stories = look().stories
    (brief,) = stories.briefs()
    assert "/" not in brief.address
    assert stories.find(brief.address).brief.run == name
    with pytest.raises(StoreError):
        stories.find("nobody")


def test_a_reader_cannot_write(runs):
    runs.small()
    reader = open_reader(runs.storage.engine)
    with reader.connect() as connection, pytest.raises(Exception, match="readonly"):
        connection.execute(text("DELETE FROM runs"))


def test_a_reader_that_looks_does_not_hold_up_a_writer(runs, look, passed_outcome, new_idea):
    record = runs.begin()
    runs.propose(record, 0, None, new_idea("A"))
    sources = look()
    with sources.reader.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM nodes")).scalar() == 0
        runs.node(record, (0, 0, 0, 0), passed_outcome(2.0))  # while the reader's snapshot is open
        assert connection.execute(text("SELECT count(*) FROM nodes")).scalar() == 0
    assert len(sources.stories.story(record.run).candidates) == 1


def test_a_program_of_several_workloads_is_ranked_by_its_speed_ups_alone(
    runs, look, passed_outcome, new_idea
):
    record = runs.begin()
    outcome = passed_outcome(2.0)
    outcome = replace(outcome, workloads={"small": outcome.speedup, "large": outcome.speedup})
    runs.propose(record, 0, None, new_idea("A"))
    runs.node(record, (0, 0, 0, 0), outcome)
    (told,) = look().stories.story(record.run).candidates
    assert told.merit == pytest.approx(outcome.merit)
