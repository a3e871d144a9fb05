"""From a run's outcomes to the order of hits."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import pytest
from sqlalchemy import Engine

from kb.database import create_tables
from kb.knowledge import Knowledge
from kb.records.types import Hit, Query, Scope
from kb.retrieval.effect_estimate import MAX_LIFT, GainMeasurement
from kb.retrieval.effect_store import Effects, Use, record
from kb.retrieval.retriever import Retriever

SUNK = "kb:ideas/vector-loads.md"
QUESTION = Query(
    text="how to load memory",
    scope=Scope(operator=("softmax",)),
    symptoms=("memory-bound",),
    limit=50,
)


@pytest.fixture
def engine(engine: Engine) -> Engine:
    """A database of its own for what is measured: the documents are shared."""
    create_tables(engine)
    return engine


def use(subject: str, number: int, gain: float, fate: str = "won", **other: object) -> Use:
    trial = GainMeasurement(
        gain=gain,
        fate=fate,  # type: ignore[arg-type]
        at=time.time(),
        families=frozenset({"softmax"}),
        architecture="sm_90",
        bottleneck="memory-bound",
    )
    return Use(subject=subject, evidence=f"{subject}-{number}", node=number, trial=trial)


def searched(knowledge: Knowledge, effects: Effects, query: Query = QUESTION) -> list[Hit]:
    part = knowledge.retriever
    return Retriever(part._store, part._embedder, part._derived, effects).search(query)


def place(hits: list[Hit], document: str) -> int:
    return [hit.passage.document for hit in hits].index(document)


def test_a_gain_moves_a_hit_up_and_a_contradicted_one_sinks(
    knowledge: Knowledge, engine: Engine
) -> None:
    def ranked() -> list[Hit]:
        return searched(knowledge, Effects(engine, time.time()))

    before = ranked()
    assert all(hit.why.effect is None for hit in before)
    last = before[-1].passage.document

    record(engine, "run-1", [use(last, n, 1.0) for n in range(12)])
    up = ranked()
    assert place(up, last) < place(before, last)
    hit = up[place(up, last)]
    assert hit.why.effect is not None
    assert (hit.why.effect.won, hit.why.effect.used) == (12, 12)
    assert hit.score == pytest.approx(hit.why.fused * hit.why.factor)
    assert hit.why.factor > 1.1
    newcomers = [hit.why.factor for hit in up if hit.passage.document != last]
    assert newcomers == pytest.approx([1.05] * len(newcomers))

    record(engine, "run-2", [use(last, n, 0.0, "failed") for n in range(20, 80)])
    sunk = ranked()
    assert place(sunk, last) > place(up, last)
    assert sunk[place(sunk, last)].why.factor < 1.0


def test_a_ranking_as_of_a_moment_does_not_see_what_came_after(
    knowledge: Knowledge, engine: Engine
) -> None:
    began = time.time() - 60
    before = searched(knowledge, Effects(engine, began))
    record(engine, "run-1", [use(SUNK, n, 0.9) for n in range(9)])
    assert searched(knowledge, Effects(engine, began)) == before
    assert searched(knowledge, Effects(engine, time.time())) != before


def test_without_effect_the_order_is_that_of_the_words_and_the_meaning(
    knowledge: Knowledge, engine: Engine
) -> None:
    plain = replace(QUESTION, mode="hybrid")
    before = searched(knowledge, Effects(engine, time.time()), plain)
    record(engine, "run-1", [use(SUNK, n, 0.0, "failed") for n in range(9)])
    assert searched(knowledge, Effects(engine, time.time()), plain) == before


def test_no_effect_moves_a_hit_by_more_than_a_factor_of_two(
    knowledge: Knowledge, engine: Engine
) -> None:
    record(engine, "run-1", [use(SUNK, n, -1.3, "lost") for n in range(300)])
    hits = searched(knowledge, Effects(engine, time.time()))
    assert hits[place(hits, SUNK)].why.factor == pytest.approx(math.exp(-MAX_LIFT))


def test_a_lesson_that_is_contradicted_sinks_and_a_confirmed_one_rises(
    knowledge: Knowledge, engine: Engine
) -> None:
    before = searched(knowledge, Effects(engine, time.time()))
    last = before[-1].passage.document
    lifts = {last: 0.69, SUNK: -0.69}
    after = searched(knowledge, Effects(engine, time.time(), lambda: lifts))
    assert place(after, last) < place(before, last)
    assert place(after, SUNK) > place(before, SUNK)


def test_a_ranking_stays_within_a_day_and_decays_after_it(
    knowledge: Knowledge, engine: Engine
) -> None:
    record(engine, "run-1", [use(SUNK, n, 0.5) for n in range(4)])
    day = math.ceil(time.time() / 86400.0) * 86400.0
    morning, evening, year = (
        searched(knowledge, Effects(engine, day + hours * 3600.0)) for hours in (1, 23, 8760)
    )
    assert morning == evening
    at = place(morning, SUNK)
    assert morning[at].why.factor > year[place(year, SUNK)].why.factor > 1.0
