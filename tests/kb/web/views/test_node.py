from __future__ import annotations

import json
import zlib
from dataclasses import replace

import pytest
from sqlalchemy import insert

from kb.app.history import open_run
from kb.records.types import Hit, Passage, Why
from kb.web.links import Served
from kb.web.skins import render
from kb.web.sources import NotFound
from kb.web.views.node import compare_texts, diff, node
from search.outcome import Refused
from search.runs.report import build_report
from search.runs.snapshot import _HITS, GIVEN
from search.runs.verdicts import keep_second
from synth.models import Message, Reply, Request

PASSAGE = Passage(
    id="p1",
    document="kb:ideas/rows.md",
    section="Rows > How",
    kind="idea",
    text="Read once.",
    tokens=3,
)
HIT = Hit(
    passage=PASSAGE, score=0.5, dense_rank=1, lexical_rank=2,
    why=Why(cosine=0.6, ranks={"dense": 1}, fused=0.5, trail=("a symptom: several-passes",), kept="first"),
)  # fmt: skip


@pytest.fixture
def told(runs, passed_outcome, new_idea):
    """A run whose first node was written by a model that was given a passage."""
    record = runs.begin()
    request = Request(
        messages=(Message(role="user", content="# Task\n\nmake it fast"),),
        max_tokens=9, temperature=0.0, seed=1, model="m",
    )  # fmt: skip
    reply = Reply(
        text="here it is", model="m", tokens_in=5, tokens_out=7, seconds=1.0, finish="stop"
    )
    runs.storage.put(request.key(), request, reply)
    runs.propose(record, 0, None, new_idea("A", passages=("p1", "lost")))
    calls = {"candidate": (5e-4, 6e-4), "eager": (1e-3, 1.1e-3)}
    runs.node(
        record, (0, 0, 0, 0), passed_outcome(2.0, calls=calls), passages=("p1", "p2"),
        exchanges=(request.key(),),
    )  # fmt: skip
    rows = [
        {"run": record.run, "kind": "hits", "key": "q", "value": zlib.compress(_HITS.dump_json((HIT,)))},
        {"run": record.run, "kind": "diagnosis", "key": "0",
         "value": zlib.compress(json.dumps({"symptoms": ["memory-bound"], "lines": ["It waits."]}).encode())},
    ]  # fmt: skip
    with runs.storage.engine.begin() as connection:
        connection.execute(insert(GIVEN), rows)
    return record


def test_a_node_shows_the_passages_that_its_run_was_given_and_why(told, look):
    view = node(look(), told.run, "0")
    (one,) = view.passages
    assert one.passage == PASSAGE
    assert one.named
    assert one.gone, "the knowledge base of this home has no documents"
    assert "asked for: a symptom: several-passes" in one.reasons
    assert view.forgotten == 2


def test_a_node_shows_what_was_asked_answered_and_diagnosed(told, look):
    view = node(look(), told.run, "0")
    (exchange,) = view.exchanges
    assert exchange.wrote == "source"
    assert exchange.messages == (("user", "# Task\n\nmake it fast"),)
    assert exchange.reply == "here it is"
    assert view.diagnosis == ("It waits.",)


def test_a_node_shows_calls_roof_and_counters(told, look):
    found = node(look(), told.run, "0").measures
    assert found.calls["candidate"] == (5e-4, 6e-4)
    assert found.roof.bandwidth == pytest.approx(1e11)
    assert found.roof.peak == pytest.approx(5e11)
    assert [spot.kind for spot in found.roof.spots] == ["node"]
    assert ("floor memory", "1 µs") in found.counters


def test_ancestors_and_baselines_stand_under_the_roof_as_well(runs, look):
    found = node(look(), runs.small().run, "3").measures
    assert [(spot.kind, spot.node) for spot in found.roof.spots] == [
        ("baseline", None), ("baseline", None), ("ancestor", 0), ("node", 3),
    ]  # fmt: skip
    eager = found.roof.spots[0]
    assert eager.intensity == pytest.approx(5.0), "eager moves what its operators move one by one"


def test_a_node_stands_among_its_relatives(runs, look):
    view = node(look(), runs.small().run, "2")
    assert [one.name for one in view.ancestors] == ["1", "reference"]
    assert [one.name for one in view.siblings] == ["1"]
    assert (view.earlier, view.later) == (1, 3)


def test_a_node_is_compared_with_any_ancestor_and_no_other(runs, look):
    sources, name = look(), runs.small().run
    assert [line.text for line in diff(sources, name, "3", "0").lines if line.mark == "+"] == [
        "# faster"
    ]
    assert diff(sources, name, "3", "reference").removed == 0
    for other in ("1", "3", "x", "99"):
        with pytest.raises(NotFound):
            diff(sources, name, "3", other)


def test_a_difference_numbers_its_lines_on_both_sides():
    found = compare_texts("a\nb\nc\n", "a\nx\nc\n")
    assert [(line.mark, line.old, line.new, line.text) for line in found] == [
        ("@", 1, 1, ""), (" ", 1, 1, "a"), ("-", 2, None, "b"), ("+", None, 2, "x"), (" ", 3, 3, "c"),
    ]  # fmt: skip
    assert compare_texts("same", "same") == ()


def test_a_source_that_repeats_its_lines_is_told_as_another_one():
    old, new = "x\n" * 3_000, ("x\n" * 7 + "y\n") * 375
    marks = [line.mark for line in compare_texts(old, new)]
    assert marks.count("+") == marks.count("-") > 2_900


@pytest.fixture
def looked_at(runs, passed_outcome, new_idea):
    """A run of which a second judge refused the first best, and measured the next one as slower."""
    record = runs.begin()
    runs.propose(record, 0, None, new_idea("A"), new_idea("B"))
    runs.node(record, (0, 0, 0, 0), passed_outcome(9.0))
    runs.node(record, (0, 1, 0, 0), passed_outcome(2.0, calls={"candidate": (5e-4,)}))
    again = {
        0: Refused(reason="it keeps the answer", trick="kept-answer", detail="line 3"),
        1: passed_outcome(1.5, calls={"candidate": (7e-4, 8e-4)}),
    }
    report = build_report({"baselines": {}}, record.graph, again, stop_reason="done", seconds=1.0)
    record.finish(report)
    return record, again


@pytest.mark.parametrize("kept", [True, False])
def test_a_nodes_page_says_of_it_what_the_commands_and_the_second_look_say(
    looked_at, runs, look, kept
):
    record, again = looked_at
    if kept:  # else as in a run that was carried here
        keep_second(runs.storage, record.run, again)
    told = open_run(runs.home, record.run)
    refused, winner = (node(look(), record.run, number) for number in "01")
    assert (refused.one.outcome, refused.outcome.kind, refused.measures) == (
        "refused", "refused", None,
    )  # fmt: skip
    assert refused.outcome.reason == again[0].reason
    assert refused.outcome.detail == (again[0].detail if kept else "")
    assert winner.one.ratio().ratio == winner.outcome.speedup["eager"].ratio == 1.5
    assert winner.measures.seconds["candidate"] == winner.one.seconds == again[1].seconds
    assert winner.measures.calls == {"candidate": (7e-4, 8e-4) if kept else (5e-4,)}
    assert winner.first_calls is not kept
    assert [one["outcome"] for one in told.tree()["nodes"]] == ["refused", "passed"]
    assert told.tree()["nodes"][1]["speedup"] == told.path_to_best()[0]["speedup"] == 1.5
    assert told.node(0)["result"]["reason"] == again[0].reason
    assert told.node(1)["result"]["seconds"] == told.report()["best"]["seconds"]
    page = render(
        "node",
        Served(),
        view=winner,
        section="runs",
        served=True,
        now=0.0,
        version="1",
        pass_word="",
    )
    assert ("those of the first judge" in page) is not kept


def test_what_another_run_had_judged_again_since_changes_no_report(looked_at, runs, look):
    record, again = looked_at
    later = replace(again[1], seconds=9.0)
    keep_second(runs.storage, record.run, {1: later})
    assert node(look(), record.run, "1").outcome.seconds == again[1].seconds
