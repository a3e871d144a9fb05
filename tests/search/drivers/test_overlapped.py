from __future__ import annotations

import threading
import time
from random import Random

import pytest
from play import Deterministic, Silent, Watcher, open_storage, settings_of

from search.attempt import Diagnosis
from search.drivers.overlapped import OverlappedDriver
from search.drivers.sequential import Driver
from search.judging.synthetic import Synthetic
from search.loop import Search
from search.policies import make_policy
from search.prompting.readings import RecordingRetriever

OVERLAPPING = settings_of(search={"rounds": 5, "ideas": 4, "branches": 2, "overlap": True})


class Uneven(Synthetic):
    """Takes a while that differs from candidate to candidate."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._seed = seed

    def judge(self, source, *, thorough=False):
        time.sleep(Random(f"{self._seed}{source}").uniform(0, 0.004))
        return super().judge(source)


class Posted(Deterministic):
    """Is asked by letter; letters are answered in an order of their own."""

    def __init__(self, seed: int) -> None:
        self._rng = Random(seed)
        self.out = 0
        self.together = 0

    def _posted(self, answer):
        self.out += 1
        self.together = max(self.together, self.out)
        for _ in range(self._rng.randrange(4)):
            yield
        self.out -= 1
        return answer

    def asks_ideas(self, moment, count):
        return (yield from self._posted(self.ideas(moment, count)))

    def asks_draft(self, moment, idea, branch, siblings):
        return (yield from self._posted(self.draft(moment, idea, branch, siblings)))

    def asks_repair(self, moment, failed):
        return (yield from self._posted(self.repair(moment, failed)))


def parts(storage, record, author, judge, settings):
    search = Search(
        record,
        make_policy(settings.search),
        settings,
        lambda attempt: Diagnosis(symptoms=(), lines=()),
        lambda: 0.0,
        context=record.run,
    )
    return search, author, judge, storage, RecordingRetriever(Silent()), Watcher()


def overlapped(storage, record, author, judges, settings=OVERLAPPING, writers=1):
    return OverlappedDriver(*parts(storage, record, author, judges, settings), writers=writers)


def story(graph):
    """What a search found, without the numbers that say who was done first."""
    steps = {node.number: node.step for node in graph.nodes}
    found = {
        node.step: (node.idea, node.draft, node.outcome, steps.get(node.parent))
        for node in graph.nodes
    }
    asked = {slot: (one.ideas, steps.get(one.parent)) for slot, one in graph.proposals.items()}
    return found, asked, graph.dead_ends


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["beam", "uct", "islands"])
def test_what_is_found_does_not_depend_on_who_is_done_first(tmp_path, policy):
    values = {"rounds": 5, "ideas": 4, "branches": 2, "overlap": True, "policy": policy}
    settings = settings_of(search=values)
    storage = open_storage(tmp_path)
    alone = storage.begin("play", {})
    Driver(*parts(storage, alone, Deterministic(), Uneven(0), settings)).run()
    assert alone.stop_reason == "5 rounds done"
    for seed in range(3):
        record = storage.begin("play", {})
        author = Posted(seed)
        judges = [Uneven(seed), Uneven(seed + 1), Uneven(seed + 2)]
        overlapped(storage, record, author, judges, settings, writers=3).run()
        assert author.together == 3
        assert all(judge.judged for judge in judges)
        assert story(record.graph) == story(alone.graph)
        assert story(storage.record(record.run).graph) == story(alone.graph)


@pytest.mark.slow
def test_a_run_that_is_taken_up_again_finds_what_an_unbroken_one_does(tmp_path):
    storage = open_storage(tmp_path)
    whole, broken = storage.begin("play", {}), storage.begin("play", {})
    overlapped(storage, whole, Posted(1), [Uneven(1), Uneven(2)], writers=2).run()

    class Leaves(Posted):
        left = 0

        def draft(self, *asked):
            self.left += 1
            if self.left > 7:
                raise KeyboardInterrupt
            return super().draft(*asked)

    for start in range(20):
        record = storage.record(broken.run)
        try:
            overlapped(storage, record, Leaves(start), [Uneven(start)], writers=2).run()
        except KeyboardInterrupt:
            continue
        break
    assert start > 2
    assert story(storage.record(broken.run).graph) == story(whole.graph)


def test_a_source_is_written_while_another_is_judged(tmp_path):
    written, judging = threading.Event(), threading.Event()

    class Waits(Synthetic):
        def judge(self, source, *, thorough=False):
            judging.set()
            assert written.wait(30), "nobody writes while it judges"
            return super().judge(source)

    class Writes(Deterministic):
        def draft(self, *asked):
            if judging.is_set():
                written.set()
            return super().draft(*asked)

    storage = open_storage(tmp_path)
    record = storage.begin("play", {})
    overlapped(storage, record, Writes(), [Waits()]).run()
    assert record.graph.judged == len(record.graph.nodes) > 20


def test_no_more_is_judged_than_the_run_may(tmp_path):
    limit = {"candidates": 9, "minutes": None, "stalled_rounds": None, "roofline": None}
    settings = settings_of(search={"rounds": 9, "ideas": 4, "overlap": True}, stop=limit)
    storage = open_storage(tmp_path)
    record = storage.begin("play", {})
    overlapped(storage, record, Posted(3), [Uneven(n) for n in range(4)], settings, 4).run()
    assert record.graph.judged == len(record.graph.nodes) == 9
    assert record.stop_reason == "9 candidates judged"


def test_an_error_of_a_judge_ends_the_run(tmp_path):
    class Breaks(Synthetic):
        def judge(self, source, *, thorough=False):
            raise RuntimeError("the judge is broken")

    storage = open_storage(tmp_path)
    with pytest.raises(RuntimeError, match="the judge is broken"):
        overlapped(storage, storage.begin("play", {}), Deterministic(), [Breaks()]).run()
