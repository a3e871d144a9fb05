from __future__ import annotations

import itertools

import pytest
from play import Carried, Deterministic, Silent, Watcher, open_storage, play, settings_of

from search.attempt import Diagnosis
from search.drivers.batched import BatchedDriver
from search.loop import Search
from search.policies import POLICIES
from search.prompting.readings import RecordingRetriever


class Broken(Watcher):
    """Ends a run, as a kill does, after so many results were told."""

    def __init__(self, results: int) -> None:
        self._left = results

    def ends(self, work, result) -> None:
        self._left -= 1
        if not self._left:
            raise KeyboardInterrupt


def batches(storage, record, settings, evaluator, watcher=None) -> BatchedDriver:
    search = Search(
        record,
        POLICIES.create(settings.search.policy),
        settings,
        lambda attempt: Diagnosis(symptoms=(), lines=()),
        lambda: 0.0,
        context="play",
    )
    return BatchedDriver(
        search,
        Deterministic(),
        evaluator,
        storage,
        RecordingRetriever(Silent()),
        watcher or Watcher(),
    )


def story(record) -> list[tuple[object, ...]]:
    return [(n.number, n.step, n.draft.source, n.outcome) for n in record.graph.nodes]


def test_one_trip_carries_a_candidate_of_every_idea(tmp_path):
    storage = open_storage(tmp_path)
    record = storage.begin("play", {})
    carried = Carried()
    batches(storage, record, settings_of(), carried).run()
    assert record.stop_reason == "4 rounds done"
    assert record.graph.judged > 20
    # Three ideas of two branches a round; a failure is mended once or twice.
    assert 4 * 2 <= carried.trips <= record.graph.judged / 2


def test_it_judges_what_a_driver_that_goes_one_by_one_judges(tmp_path):
    storage = open_storage(tmp_path)
    one, other = storage.begin("play", {}), storage.begin("play", {})
    settings = settings_of(search={"rounds": 1, "ideas": 3, "branches": 1})
    play(storage, one, settings)
    batches(storage, other, settings, Carried()).run()

    def sources(record):
        return {node.step: node.draft.source.split("/")[0] for node in record.graph.nodes}

    assert sources(one) == sources(other)


def test_a_run_that_ends_after_any_trip_goes_on_as_if_it_had_not(tmp_path):
    settings = settings_of(search={"rounds": 2, "ideas": 3, "branches": 2})
    whole = open_storage(tmp_path / "whole")
    (tmp_path / "whole").mkdir(exist_ok=True)
    unbroken = whole.begin("play", {})
    trips = Carried()
    batches(whole, unbroken, settings, trips).run()
    storage = open_storage(tmp_path)
    name = storage.begin("play", {}).run
    for _ in range(trips.trips - 1):
        with pytest.raises(KeyboardInterrupt):
            batches(storage, storage.record(name), settings, Carried(trips=1)).run()
    record = storage.record(name)
    batches(storage, record, settings, Carried(trips=1)).run()
    assert story(record) == story(unbroken)


@pytest.mark.slow
def test_a_run_that_is_broken_off_after_any_result_goes_on_as_if_it_had_not(tmp_path):
    settings = settings_of(search={"rounds": 2, "ideas": 3, "branches": 2})
    storage = open_storage(tmp_path)
    unbroken = storage.begin("play", {})
    batches(storage, unbroken, settings, Carried()).run()
    for results in itertools.count(1):
        broken = storage.begin("play", {}).run
        try:
            batches(storage, storage.record(broken), settings, Carried(), Broken(results)).run()
        except KeyboardInterrupt:
            record = storage.record(broken)
            batches(storage, record, settings, Carried()).run()
            assert story(record) == story(unbroken), f"broken off after {results} results"
        else:
            break
    assert results > 20


def test_a_budget_of_candidates_is_kept(tmp_path):
    storage = open_storage(tmp_path)
    for most in (1, 4, 7):
        record = storage.begin("play", {})
        settings = settings_of(
            stop={"candidates": most, "minutes": None, "stalled_rounds": None, "roofline": None}
        )
        batches(storage, record, settings, Carried()).run()
        assert record.graph.judged == most
        assert record.stop_reason == f"{most} candidates judged"


def test_the_finalists_travel_together(tmp_path):
    storage = open_storage(tmp_path)
    record = storage.begin("play", {})
    carried = Carried()
    driver = batches(storage, record, settings_of(), carried)
    driver.run()
    before = carried.trips
    carried.known.clear()
    confirmed = driver.confirm("play")
    assert 1 <= len(confirmed) <= 3
    assert carried.trips == before + 1
