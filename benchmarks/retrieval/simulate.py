"""Outcomes made up from grades, so that ranking by effect can be measured before there are runs.

For each question of the training set a search is played: it reads the first five passages, tries a
candidate on each `TRIALS` times, and what the candidate gains depends on the grade of the passage,
with noise and failures that do not. Effects are learnt from these outcomes by the code that learns
them from real ones. Nothing is learnt from held-out questions.

What it shows: whether ranking by effect helps later questions, or at least does no harm, under these
assumptions. What it does not show: that advice which answers a question gains in practice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.retrieval.measures import grades
from benchmarks.retrieval.methods import rank
from benchmarks.retrieval.questions import Question
from kb.config import Home
from kb.database import create_tables, open_engine
from kb.knowledge import Knowledge
from kb.records.types import Passage, Scope
from kb.retrieval.effect_estimate import GainMeasurement
from kb.retrieval.effect_store import Effects, Use, record, subject
from kb.retrieval.retriever import Retriever

READ = 5  # passages that a search tries
TRIALS = 2  # candidates for each of them
FAILED = 0.25  # share of candidates that are wrong or do not build, whatever they were told
GAIN = {3: 0.30, 2: 0.15, 1: 0.0, 0: -0.10}  # mean log speed-up by grade
NOISE = 0.30  # its standard deviation, which hides the mean of a single trial
EVEN = 0.03
NOW = 1_750_000_000.0  # seconds since the epoch: nothing decays, whenever it is run


def learn(
    knowledge: Knowledge,
    train: Sequence[Question],
    scopes: Mapping[str, Scope],
    folder: Path,
    seed: int,
) -> Retriever:
    """Return a retriever that ranks by what was learnt from `train`.

    Args:
        folder: for the database of outcomes; it must be empty.
    """
    if any(question.held_out for question in train):
        raise ValueError("a held-out question is among those that effects are learnt from")
    engine = open_engine(Home(folder).make())
    create_tables(engine)
    rankings = rank(knowledge.retriever, train, "hybrid", scopes)
    rng = np.random.default_rng(seed)
    for question, ranking in zip(train, rankings, strict=True):
        record(engine, question.id, _uses(question, ranking[:READ], rng))
    part = knowledge.retriever
    return Retriever(part._store, part._embedder, part._derived, Effects(engine, NOW))


def _uses(question: Question, ranking: Sequence[Passage], rng: np.random.Generator) -> list[Use]:
    uses = []
    for place, (passage, grade) in enumerate(zip(ranking, grades(question, ranking), strict=True)):
        for number in range(TRIALS):
            gain = float(rng.normal(GAIN[grade], NOISE))
            failed = bool(rng.random() < FAILED)
            fate = "failed" if failed else _fate(gain)
            uses.append(
                Use(
                    subject=subject(passage),
                    evidence=f"{question.id}/{place}/{number}",
                    node=place,
                    trial=GainMeasurement(gain=gain, fate=fate, at=NOW - 1.0),  # type: ignore[arg-type]
                )
            )
    return uses


def _fate(gain: float) -> str:
    return "even" if abs(gain) < EVEN else "won" if gain > 0 else "lost"
