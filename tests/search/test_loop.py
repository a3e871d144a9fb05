from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from play import Deterministic, open_storage, play, settings_of

from search.graph import Graph
from search.loop import Search
from search.pieces import JudgeNode, WriteIdeas
from search.policies.beam import Beam

PLAY = Path(__file__).parent / "play.py"


def shape(graph: Graph) -> list[tuple[object, ...]]:
    """Everything about a graph that must not depend on how it came about."""
    return [(n.number, n.step, n.parent, n.idea, n.draft, n.outcome) for n in graph.nodes] + sorted(
        graph.dead_ends
    )


def unbroken(folder: Path) -> Graph:
    storage = open_storage(folder)
    record = storage.begin("play", {})
    play(storage, record, settings_of())
    return record.graph


def test_a_run_judges_every_branch_of_every_idea_of_every_round(tmp_path):
    graph = unbroken(tmp_path)
    steps = {node.step for node in graph.nodes if node.step.repair == 0} | {
        step for step in graph.dead_ends if step.repair == 0
    }
    rounds = {step.slot.round for step in steps}
    assert rounds == {0, 1, 2, 3}
    assert all(node.outcome is not None for node in graph.nodes)
    for slot, proposal in graph.proposals.items():
        for number in range(len(proposal.ideas)):
            branches = {s.branch for s in steps if s.slot == slot and s.idea == number}
            ended = any(s.slot == slot and s.idea == number for s in graph.dead_ends)
            assert branches == {0, 1} or ended


def test_later_rounds_grow_from_the_fastest_attempts(tmp_path):
    graph = unbroken(tmp_path)
    for slot, proposal in graph.proposals.items():
        if slot.round == 0:
            assert proposal.parent is None
            continue
        earlier = [a for a in graph.ranked() if a.round < slot.round]
        assert proposal.parent == earlier[slot.parent].number


def test_a_failed_draft_goes_back_to_its_author_as_its_own_child(tmp_path):
    graph = unbroken(tmp_path)
    mended = [node for node in graph.nodes if node.step.repair]
    assert mended
    for node in mended:
        assert graph.nodes[node.parent].outcome.kind == "wrong"
        assert node.draft.source.startswith(graph.nodes[node.parent].draft.source)


@pytest.mark.slow
def test_a_run_killed_at_random_moments_ends_with_the_graph_of_an_unbroken_one(tmp_path):
    expected = unbroken(tmp_path / "unbroken")
    folder, log = tmp_path / "killed", tmp_path / "log"
    rng = random.Random(7)
    command = [sys.executable, str(PLAY), str(folder), str(log)]
    kills = 0
    while kills < 10:
        process = subprocess.Popen(command)
        target = rng.randint(1, 4)
        start = len(log.read_text().splitlines()) if log.exists() else 0
        while process.poll() is None:
            done = len(log.read_text().splitlines()) if log.exists() else 0
            if done - start >= target:
                break
            time.sleep(rng.uniform(0, 0.004))
        if process.poll() is not None:
            assert kills >= 5, "the run ended before its fifth kill: make it longer"
            break
        process.send_signal(signal.SIGKILL)
        process.wait()
        kills += 1
    assert subprocess.run(command).returncode == 0
    storage = open_storage(folder)
    (row,) = storage.runs()
    assert shape(storage.record(row.run).graph) == shape(expected)
    judged = log.read_text().splitlines()
    # A kill between a verdict and its transaction loses that one verdict, nothing that was stored.
    assert len(judged) - len(set(judged)) <= kills
    assert set(judged) == {node.draft.source for node in expected.nodes}


def test_what_was_judged_in_another_run_is_not_judged_again(tmp_path):
    storage = open_storage(tmp_path)
    first = play(storage, storage.begin("play", {}), settings_of())
    second = play(storage, storage.begin("play", {}), settings_of())
    assert first.judged
    assert second.judged == []


def test_two_pieces_of_work_can_be_out_at_once_and_told_in_any_order(tmp_path):
    storage = open_storage(tmp_path)
    record = storage.begin("play", {})
    search = Search(record, Beam(), settings_of(), lambda a: None, lambda: 0.0, context="x")
    author = Deterministic()
    ideas = search.ask()
    assert isinstance(ideas, WriteIdeas)
    assert search.ask() is None  # nothing else can be done before there are ideas
    from search.pieces import Ideas

    search.tell(ideas, Ideas(ideas=author.ideas(ideas.moment, ideas.count)))
    drafts = [search.ask() for _ in range(3)]
    assert len({work.step.idea for work in drafts}) == 3
    assert search.ask() is None
    for work in reversed(drafts):
        search.tell(work, author.draft(work.moment, work.idea, work.step.branch, work.siblings))
    assert isinstance(search.ask(), JudgeNode)


@pytest.mark.parametrize(
    ("stop", "reason"),
    [
        ({"candidates": 5}, "5 candidates judged"),
        ({"speedup": 1.01}, "a speed-up of 1.01 over eager reached"),
        ({"stalled_rounds": 1}, "no gain in 1 rounds"),
    ],
)
def test_each_stop_rule_ends_the_run_and_says_so(tmp_path, stop, reason):
    storage = open_storage(tmp_path)
    record = storage.begin("play", {})
    rules = {"candidates": None, "minutes": None, "stalled_rounds": None, "roofline": None, **stop}
    settings = settings_of(stop=rules, search={"rounds": 50, "ideas": 2, "branches": 2})
    play(storage, record, settings)
    assert record.stop_reason == reason
    assert storage.run(record.run).stop_reason == reason


def test_a_preparation_that_took_all_of_the_minutes_leaves_time_for_a_candidate(tmp_path):
    storage = open_storage(tmp_path)
    record = storage.begin("play", {})
    play(storage, record, settings_of(stop={"minutes": 0.5}), elapsed=600)
    assert record.graph.judged == 1
    assert record.stop_reason == "0.5 minutes, the end of them for measuring the best again"


def test_a_run_of_another_seed_is_another_run(tmp_path):
    storage = open_storage(tmp_path)
    one, other = storage.begin("play", {}), storage.begin("play", {})
    play(storage, one, settings_of(search={"rounds": 2, "seed": 1}))
    play(storage, other, settings_of(search={"rounds": 2, "seed": 2}))
    assert shape(one.graph) != shape(other.graph)
