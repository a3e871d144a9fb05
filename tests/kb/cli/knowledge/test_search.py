from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from kb.app.queries import SearchOptions, build_query, explained
from kb.cli.knowledge.search import lines
from kb.config import Home
from kb.database import create_tables, open_engine
from kb.errors import ConfigError
from kb.knowledge import Knowledge
from kb.records.types import MODES, Answer, Scope
from kb.retrieval.effect_estimate import GainMeasurement
from kb.retrieval.effect_store import Effects, Use, record
from kb.retrieval.retriever import Retriever

NAME = "kb:ideas/pad-shared-memory.md"
ASKED = SearchOptions(question="shared memory bank conflicts", symptoms=["bank-conflicts"])


@pytest.fixture
def answer(knowledge: Knowledge, tmp_path: Path) -> Answer:
    engine = open_engine(Home(tmp_path))
    create_tables(engine)
    trials = [
        GainMeasurement(
            gain=gain,
            fate="won" if gain > 0 else "failed",
            at=time.time(),
            bottleneck="bank-conflicts",
        )
        for gain in (0.4, 0.3, 0.0)
    ]
    record(
        engine,
        "run-1",
        [Use(subject=NAME, evidence=str(n), node=n, trial=one) for n, one in enumerate(trials)],
    )
    part = knowledge.retriever
    effects = Effects(engine, time.time())
    retriever = Retriever(part._store, part._embedder, part._derived, effects)
    query = replace(build_query(ASKED), scope=Scope(vendor=("intel",)), token_budget=60)
    return retriever.answer(query)


def test_each_passage_is_explained(answer: Answer) -> None:
    text = "\n" + "\n".join(lines(answer, explain=True))
    place = next(n for n, hit in enumerate(answer.hits, start=1) if hit.passage.document == NAME)
    own = text.partition(f"\n{place}. ")[2].partition("\n\n")[0]
    assert f"({NAME})  [outside the scope asked for]" in own
    assert "| places: meaning " in own
    assert "(cosine 0." in own
    assert ", words " in own
    assert "(BM25 " in own
    assert "; fused 0." in own
    assert "| scope: not written for the vendor asked for" in own
    assert "| effect: retrieved 0 times, used 3 times (2 won, 1 failed); expected gain 1." in own
    assert "newcomer's bonus 1.0" in own
    assert "| effect rests on 3.0 measurements from here" in own
    assert "| kept: first of " in own
    assert "left out: " in text
    assert "tokens, " in text.partition("left out: ")[2]


def test_without_explain_only_passages_are_printed(answer: Answer) -> None:
    text = "\n".join(lines(answer, explain=False))
    assert "places:" not in text
    assert "left out" not in text
    assert answer.hits[0].passage.text.splitlines()[0] in text


def test_json_holds_every_reason(answer: Answer) -> None:
    plain = json.loads(json.dumps(explained(answer)))
    hit = next(one for one in plain["hits"] if one["document"] == NAME)
    assert hit["why"]["effect"]["won"] == 2
    assert hit["why"]["misses"] == ["vendor"]
    assert set(hit["why"]["ranks"]) >= {"dense", "bm25", "symptoms"}
    assert hit["score"] == pytest.approx(hit["why"]["fused"] * hit["why"]["factor"], rel=0.05)
    assert plain["left_out"][0].keys() == {"document", "section", "reason"}
    assert any("the rest is from outside" in note for note in plain["notes"])


def test_a_target_and_a_language_make_the_scope() -> None:
    query = build_query(replace(ASKED, target="h100", language="triton", operators=["softmax"]))
    assert query.scope == Scope(
        vendor=("nvidia",),
        architecture=("sm_90",),
        language=("triton",),
        operator=("softmax",),
    )
    assert (query.mode, query.symptoms) == (MODES[-1], ("bank-conflicts",))


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        ({"question": " "}, "the question is empty"),
        ({"kinds": ["poem"]}, "unknown kind 'poem': known are target"),
        ({"symptoms": ["slow"]}, "unknown symptom 'slow': known are memory-bound"),
        ({"operators": ["gelu"]}, "unknown operator 'gelu': known are elementwise"),
        ({"mode": "magic"}, "unknown mode 'magic': known are bm25, dense"),
    ],
)
def test_what_is_not_known_is_one_line(wrong: dict[str, object], line: str) -> None:
    with pytest.raises(ConfigError, match=line):
        build_query(replace(ASKED, **wrong))  # type: ignore[arg-type]
