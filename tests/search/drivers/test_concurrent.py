from __future__ import annotations

import threading
import time

import pytest
from play import Carried, Deterministic, Logged, Silent, Watcher, open_storage, play, settings_of

from kb.errors import ModelError
from search.attempt import Diagnosis
from search.drivers.concurrent import Turn, Waves
from search.loop import Search
from search.policies import POLICIES
from search.prompting.readings import Witness


class Correspondent(Deterministic):
    """Answers by letter: the last one that was asked is answered first, once all of a wave are out."""

    def __init__(self, most: int | None = None, until=lambda: True) -> None:
        self.until = until
        self.turn = Turn()
        self.inside = 0
        self.crowd = 0
        self.out: list[object] = []
        self.together = 0
        self.answered = 0
        self.most = most
        self.closed = False
        self.order: list[str] = []

    @property
    def waiting(self) -> tuple[str, ...]:
        return tuple(map(str, self.out))

    def close(self) -> None:
        self.closed = True

    def _by_letter(self, name: str) -> None:
        self.inside += 1
        self.crowd = max(self.crowd, self.inside)
        letter = object()
        self.out.append(letter)
        self.order.append(f"out {name}")
        self.inside -= 1
        with self.turn.given_up():
            time.sleep(0.02)  # the others of the wave are sent meanwhile
            end = time.monotonic() + 5
            held = name.startswith("idea ")
            while not self.closed and (
                self.out[-1] is not letter or (held and not self.until() and time.monotonic() < end)
            ):
                time.sleep(0.001)
            self.together = max(self.together, len(self.out))
        self.inside += 1
        self.crowd = max(self.crowd, self.inside)
        self.out.remove(letter)
        if self.closed or self.answered == self.most:
            self.inside -= 1
            raise ModelError("the post is closed")
        self.answered += 1
        self.order.append(f"in {name}")
        self.inside -= 1

    def ideas(self, moment, count):
        assert not self.out, "ideas know what became of everything before them"
        self._by_letter("ideas")
        return super().ideas(moment, count)

    def draft(self, moment, idea, branch, siblings):
        self._by_letter(f"{idea.title}/{branch}")
        return super().draft(moment, idea, branch, siblings)

    def repair(self, moment, failed):
        self._by_letter(f"repair {failed.number}")
        return super().repair(moment, failed)


SMALL = settings_of(search={"rounds": 2, "ideas": 3, "branches": 2})


def waves(storage, record, author, settings=SMALL, shows=lambda _: None, evaluator=None):
    search = Search(
        record,
        POLICIES.create(settings.search.policy),
        settings,
        lambda attempt: Diagnosis(symptoms=(), lines=()),
        lambda: 0.0,
        context="play",
    )
    parts = (search, author, evaluator or Logged(None, 0), storage, Witness(Silent()), Watcher())
    return Waves(*parts, turn=author.turn, post=author, context="play", shows=shows)


def story(record) -> list[tuple[object, ...]]:
    return [(n.number, n.step, n.draft.source, n.outcome) for n in record.graph.nodes]


def test_every_source_of_a_round_is_asked_for_at_once_and_one_thread_works_at_a_time(tmp_path):
    storage = open_storage(tmp_path)
    record = storage.begin("play", {})
    seen: list[tuple[str, ...]] = []
    author = Correspondent(until=lambda: any(len(names) == 3 for names in seen))
    waves(storage, record, author, shows=seen.append).run()
    assert record.stop_reason == "2 rounds done"
    assert author.together == 3
    assert author.crowd == 1
    assert author.closed
    assert not {thread for thread in threading.enumerate() if thread.name.startswith("letter")}


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
    author = Correspondent(until=lambda: len(author.out) == 3 or "judged" in author.order)
    settings = settings_of(search={"rounds": 1, "ideas": 3, "branches": 1})
    driver = waves(storage, record, author, settings)
    judge = driver._evaluator.evaluate

    def evaluate(source):
        author.order.append("judged")
        return judge(source)

    driver._evaluator.evaluate = evaluate
    driver.run()
    first = author.order.index("judged")
    assert sum(entry.startswith("in idea ") for entry in author.order[:first]) == 1


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


def test_an_interrupt_leaves_no_thread_waiting(tmp_path):
    storage = open_storage(tmp_path)
    record = storage.begin("play", {})
    author = Correspondent()

    def shows(names):
        if author.answered:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        waves(storage, record, author, shows=shows).run()
    assert author.closed
    assert not {thread for thread in threading.enumerate() if thread.name.startswith("letter")}
