from __future__ import annotations

import math
import time
from pathlib import Path

import pytest

from kb.cli.knowledge.effects import every, find
from kb.config import Home
from kb.database import create_tables, open_engine
from kb.errors import ConfigError
from kb.retrieval.effect_estimate import GainMeasurement
from kb.retrieval.effect_store import Effects, Use, by_place, record

TILE, PAD = "kb:ideas/tile.md", "lessons:pad.md"


@pytest.fixture
def known(tmp_path: Path) -> Effects:
    engine = open_engine(Home(tmp_path))
    create_tables(engine)

    def use(subject: str, number: int, gain: float, family: str) -> Use:
        trial = GainMeasurement(
            gain=gain,
            fate="won" if gain > 0 else "failed",
            at=time.time(),
            families=frozenset({family}),
            architecture="sm_90",
            bottleneck="memory-bound",
        )
        return Use(subject=subject, evidence=f"{subject}{number}", node=number, trial=trial)

    uses = [use(TILE, n, 0.5, "softmax") for n in range(4)]
    uses += [use(TILE, n, 0.0, "matmul") for n in range(4, 8)]
    record(engine, "run-1", [*uses, use(PAD, 0, 0.9, "matmul")])
    return Effects(engine, time.time())


def test_every_subject_has_its_counts_and_its_gain_the_best_first(known: Effects) -> None:
    first, second = every(known)
    assert (first["name"], second["name"]) == (PAD, TILE)
    assert (second["won"], second["failed"], second["retrieved"]) == (4, 4, 0)
    assert second["low"] < second["gain"] < second["high"]
    # Anywhere: one measurement tells a third of what it tells where it was made, and less.
    assert 1.0 < first["gain"] < math.exp(0.9 / 5)


def test_a_subject_is_told_place_by_place(known: Effects) -> None:
    softmax, matmul = by_place(known, TILE)
    assert softmax["name"] == "softmax; sm_90; memory-bound"
    assert (softmax["won"], softmax["failed"]) == (4, 0)
    assert (matmul["won"], matmul["failed"]) == (0, 4)
    assert softmax["gain"] > 1 > matmul["gain"]


def test_a_subject_is_found_by_its_stem(known: Effects) -> None:
    subjects = known.subjects()
    assert find(subjects, TILE) == find(subjects, "tile") == TILE
    assert find(subjects, "pad") == PAD
    with pytest.raises(ConfigError, match=r"found none called 'nobody': known are kb:"):
        find(subjects, "nobody")
