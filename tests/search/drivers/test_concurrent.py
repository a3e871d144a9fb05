from __future__ import annotations

import pytest
from play import Carried, Deterministic, Logged, Silent, Watcher, open_storage, play, settings_of

from kb.errors import ModelError
from search.attempt import Diagnosis
from search.drivers.concurrent import ConcurrentDriver
from search.loop import Search
from search.policies import POLICIES
from search.prompting.readings import RecordingRetriever


class Correspondent(Deterministic):
    """Is asked by letter: between two looks the letter that was sent last is answered.

    Args:
        most: letters that are answered before the post closes; None for all.
    """

    def __init__(self, most: int | None = None) -> None:
        self.most = most
        self.out: list[str] = []
        self.together = 0
        self.answered = 0
        self.next = ""
        self.order: list[str] = []

    def pause(self) -> None:
        self.next = self.out[-1]

    def _by_letter(self, name: str):
        self.out.append(name)
        self.order.append(f"out {name}")
        self.together = max(self.together, len(self.out))
        try:
            while self.next != name:
                yield
            if self.answered == self.most:
                raise ModelError("the post is closed")
        finally:
            self.out.remove(name)
        self.next = ""
        self.answered += 1
        self.order.append(f"in {name}")

    def asks_ideas(self, moment, count):
        assert not self.out, "ideas know what became of everything before them"
        yield from self._by_letter("ideas")
        return self.ideas(moment, count)

    def asks_draft(self, moment, idea, branch, siblings):
        yield from self._by_letter(f"{idea.title}/{branch}")
        return self.draft(moment, idea, branch, siblings)

    def asks_repair(self, moment, failed):
        yield from self._by_letter(f"repair {failed.number}")
        return self.repair(moment, failed)


SMALL = settings_of(search={"rounds": 2, "ideas": 3, "branches": 2})


def waves(storage, record, author, settings=SMALL, evaluator=None, pause=None):
    search = Search(
        record,
        POLICIES.create(settings.search.policy),
        settings,
        lambda attempt: Diagnosis(symptoms=(), lines=()),
        lambda: 0.0,
        context="play",
    )
    parts = (
        search,
        author,
        evaluator or Logged(None, 0),
        storage,
        RecordingRetriever(Silent()),
        Watcher(),
    )
    return ConcurrentDriver(*parts, context="play", pause=pause or author.pause)


def story(record) -> list[tuple[object, ...]]:
    return [(n.number, n.step, n.draft.source, n.outcome) for n in record.graph.nodes]


def test_every_source_of_a_round_is_asked_for_at_once(tmp_path):
    storage = open_storage(tmp_path)
    record = storage.begin("play", {})
    author = Correspondent()
    waves(storage, record, author).run()
    assert record.stop_reason == "2 rounds done"
    assert author.together == 3
    assert author.out == []


def test_the_sources_of_a_round_travel_together_to_a_judge_elsewhere(tmp_path):
    storage = open_storage(tmp_path)
    record = storage.begin("play", {})
    carried = Carried()
    settings = settings_of(search={"rounds": 1, "ideas": 6, "branches": 1})
    waves(storage, record, Correspondent(), settings, evaluator=carried).run()
    assert record.graph.judged > 5
    assert carried.trips <= 3  # a failure is mended once or twice


def test_what_comes_of_it_does_not_depend_on_the_order_of_the_answers(tmp_path):
    storage = open_storage(tmp_path)
    backwards, one_by_one = storage.begin("play", {}), storage.begin("play", {})
    settings = settings_of(search={"rounds": 1, "ideas": 3, "branches": 1})
    waves(storage, backwards, Correspondent(), settings).run()
    play(storage, one_by_one, settings)

    def first_drafts(record):
        steps = {n.step: n.draft.source for n in record.graph.nodes if n.step.repair == 0}
        return {step: source.split("/")[0] for step, source in steps.items()}

    assert first_drafts(backwards) == first_drafts(one_by_one)
    steps = [node.step for node in backwards.graph.nodes if node.step.repair == 0]
    assert steps == sorted(steps)


def test_a_run_that_ends_with_letters_out_goes_on_as_if_it_had_not(tmp_path):
    (tmp_path / "whole").mkdir()
    whole = open_storage(tmp_path / "whole")
    unbroken = whole.begin("play", {})
    author = Correspondent()
    waves(whole, unbroken, author).run()
    storage = open_storage(tmp_path)
    name = storage.begin("play", {}).run
    broken = 0
    for most in (0, 2, 3, 5, None):
        try:
            waves(storage, storage.record(name), Correspondent(most)).run()
        except ModelError:
            broken += 1
    assert broken >= 3
    assert story(storage.record(name)) == story(unbroken)


def test_an_answer_is_judged_while_others_are_waited_for(tmp_path):
    storage = open_storage(tmp_path)
    record = storage.begin("play", {})
    author = Correspondent()
    settings = settings_of(search={"rounds": 1, "ideas": 3, "branches": 1})
    judging = Logged(None, 0)
    judge = judging.judge

    def judged(source, *, thorough=False):
        author.order.append(f"judged beside {len(author.out)}")
        return judge(source)

    judging.judge = judged
    waves(storage, record, author, settings, evaluator=judging).run()
    judged = [entry for entry in author.order if entry.startswith("judged")]
    assert judged[:2] == ["judged beside 2", "judged beside 1"]


def test_a_budget_of_candidates_is_kept(tmp_path):
    storage = open_storage(tmp_path)
    for most in (1, 4, 5):
        record = storage.begin("play", {})
        settings = settings_of(
            search={"rounds": 3, "ideas": 3, "branches": 2},
            stop={"candidates": most, "minutes": None, "stalled_rounds": None, "roofline": None},
        )
        waves(storage, record, Correspondent(), settings).run()
        assert record.graph.judged == most


def test_an_interrupt_leaves_nobody_waiting(tmp_path):
    storage = open_storage(tmp_path)
    record = storage.begin("play", {})
    author = Correspondent()

    def interrupt():
        author.pause()
        if author.answered:
            assert len(author.out) == 3
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        waves(storage, record, author, pause=interrupt).run()
    assert author.out == []
