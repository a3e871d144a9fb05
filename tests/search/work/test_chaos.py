"""Drivers, workers and connections that end at random points: the run ends as an unbroken one."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
import stage


@pytest.mark.slow
def test_a_run_whose_parts_are_killed_at_random_ends_as_an_unbroken_one(
    make_postgres_database: Callable[[], str], tmp_path: Path
) -> None:
    url, chance = make_postgres_database(), random.Random(2026)
    kinds = ("driver", "worker", "connections")
    # The first three, which are taken from the end, are one of each: a run may be over before the others.
    plan = chance.sample(kinds, 9, counts=(2, 2, 5)) + chance.sample(kinds, 3)
    deaths = stage.disturbed(url, plan, chance)
    assert deaths.keys() == set(kinds)
    assert stage.check(url, tmp_path) > 30
