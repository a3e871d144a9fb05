"""Which workers there are, on each database that `kb` supports."""

from __future__ import annotations

import pytest
from sqlalchemy import Engine, select, update

from kb.database import DatabaseClock, claiming, reading
from search.work.roster import Roster
from search.work.tables import WORKERS


@pytest.fixture
def roster(engine: Engine) -> Roster:
    return Roster(engine, silence=120)


def silent(engine: Engine, name: str, seconds: float) -> None:
    """Have a worker have given no sign of life for so long, as one that was killed."""
    with claiming(engine) as session:
        mine = update(WORKERS).where(WORKERS.c.worker == name)
        session.execute(mine.values(seen=DatabaseClock() - seconds))


def rows(engine: Engine) -> list[str]:
    with reading(engine) as session:
        return list(session.scalars(select(WORKERS.c.worker).order_by(WORKERS.c.worker)))


def test_a_worker_is_there_until_it_leaves_or_falls_silent(roster, engine):
    for name in ("a", "b", "c"):
        roster.beat(name, "context", {"host": name}, "")
    roster.leave("a")
    silent(engine, "b", 600)
    assert [one.name for one in roster.alive()] == ["c"]
    roster.beat("b", "context", {"host": "b"}, "")
    assert [one.name for one in roster.alive()] == ["b", "c"], "it was only slow"


def test_a_new_worker_has_those_forgotten_that_were_killed_long_ago(roster, engine):
    for name in ("killed", "lately", "there"):
        roster.beat(name, "context", {}, "")
    silent(engine, "killed", 2 * 86_400)
    silent(engine, "lately", 600)
    roster.beat("there", "context", {}, "")
    assert rows(engine) == ["killed", "lately", "there"], "a sign of life costs one statement"
    roster.beat("new", "context", {}, "")
    assert rows(engine) == ["lately", "new", "there"]
