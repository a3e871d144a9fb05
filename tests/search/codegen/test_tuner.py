"""Numeric choices: reproducible, learning, and exhaustive where the space is small."""

from __future__ import annotations

from itertools import islice

from kb.records.schema import Choices, Range
from search.codegen.tuner import JudgedSetting, suggestions

KNOBS = {"unroll": Choices(choices=(4, 1, 2, 8)), "tile": Range(low=8, high=64, step=8, default=16)}


def test_the_same_seed_asks_the_same() -> None:
    one, two = (list(islice(suggestions(KNOBS, [], 7), 30)) for _ in range(2))
    assert one == two
    assert one != list(islice(suggestions(KNOBS, [], 8), 30))


def test_every_setting_of_a_small_space_is_reached() -> None:
    found = {tuple(sorted(knobs.items())) for knobs in suggestions(KNOBS, [], 0)}
    assert len(found) == 4 * 8


def test_what_was_fast_is_asked_for_more_often() -> None:
    trials = [
        JudgedSetting(knobs={"unroll": unroll, "tile": tile}, cost=1.0 if unroll == 8 else 9.0)
        for unroll in (1, 2, 4, 8)
        for tile in range(8, 72, 8)
    ]
    asked = [knobs for seed in range(8) for knobs in islice(suggestions(KNOBS, trials, seed), 8)]
    assert sum(knobs["unroll"] == 8 for knobs in asked) > len(asked) / 2


def test_failed_and_foreign_trials_do_no_harm() -> None:
    trials = [
        JudgedSetting(knobs={"unroll": 1, "tile": 8}, cost=None),
        JudgedSetting(knobs={"unroll": 2}, cost=1.0),
    ]
    assert next(suggestions(KNOBS, trials, 0))["unroll"] in (1, 2, 4, 8)


def test_an_idea_without_knobs_has_no_variants() -> None:
    assert list(suggestions({}, [], 0)) == []
