from __future__ import annotations

import argparse
import math
from pathlib import Path

import pytest
import yaml

from benchmarks.ablation import Run, _geometric, _reached, _table
from kb.records.types import Query
from search.prompting.knowledge_view import Silent
from search.prompting.readings import RecordingRetriever
from search.task import TaskFile

INFINITE = math.inf


def run(seed: int, *seconds: float, speedup: float = 2.0) -> Run:
    return Run(seed=seed, seconds=seconds, speedup=speedup)


def test_a_task_says_off_as_people_write_it() -> None:
    assert (
        TaskFile.model_validate(yaml.safe_load("reference: x.py\nretrieval: off")).retrieval
        is False
    )
    assert TaskFile(reference="x.py").retrieval is True


def test_without_retrieval_nothing_is_returned_and_nothing_recorded() -> None:
    witness = RecordingRetriever(Silent())
    assert witness.search(Query(text="softmax")) == []
    assert witness.documents() == ()


@pytest.mark.slow
def test_the_table_compares_the_arms_seed_by_seed() -> None:
    arms = {
        "with retrieval": [run(0, 3.0, 1.0, speedup=4.0), run(1, 1.0, speedup=4.0)],
        "without": [run(0, INFINITE, 3.0, 1.02), run(1, 2.0, speedup=2.0)],
    }
    options = argparse.Namespace(task=Path("toy.yaml"), seeds=2, minutes=1.0, candidates=3)
    lines = _table(options, "recipes", arms).splitlines()
    assert "| with retrieval | 4.000 | 1.5 | 100% |" in lines
    assert "| without | 2.000 | not | 83% |" in lines
    assert "| with over without, paired | 2.000 | | |" in lines


def test_reached_is_the_first_candidate_that_is_near_enough() -> None:
    assert _reached(run(0, INFINITE, 2.0, 1.0), 1.03) == 3
    assert math.isinf(_reached(run(0, 2.0), 1.03))


def test_an_interval_needs_three_seeds_and_holds_the_mean() -> None:
    assert _geometric([2.0, 2.0]) == "2.000"
    mean, low, high = (float(part.strip("[],")) for part in _geometric([1.0, 2.0, 4.0]).split())
    assert low < mean == 2.0 < high
