"""Drivers, workers and connections that end at random points: the run ends as an unbroken one."""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import crew
import play
import pytest
from sqlalchemy import create_engine, select, text

from kb.database import open_file, open_url, reading
from search.graph import hash_source
from search.runs.storage import Storage
from search.work.tables import RESULTS, WORK

LEASE = "1"
END_CONNECTIONS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
)


class Stage:
    """A driver and two workers on one database, which are started again as soon as they end."""

    def __init__(self, url: str, stack: ExitStack) -> None:
        self._url = url
        self._stack = stack
        self.driver = self._start("--drive")
        self.workers = [self._start("--seconds", "0.02") for _ in range(2)]
        self.deaths = {"driver": 0, "worker": 0, "connections": 0}

    def _start(self, *options: str) -> subprocess.Popen[str]:
        return self._stack.enter_context(crew.started(self._url, "--lease", LEASE, *options))

    def kill_the_driver(self) -> None:
        self.driver.kill()
        self.driver.wait()
        self.deaths["driver"] += 1
        self.driver = self._start("--drive")

    def kill_a_worker(self, number: int) -> None:
        self.workers[number].kill()
        self.workers[number].wait()
        self.deaths["worker"] += 1
        self.workers[number] = self._start("--seconds", "0.02")

    def end_connections(self) -> None:
        server = create_engine(self._url, isolation_level="AUTOCOMMIT")
        with server.connect() as connection:
            connection.execute(text(END_CONNECTIONS))
        server.dispose()
        self.deaths["connections"] += 1

    def disturb(self, what: str, chance: random.Random) -> None:
        if what == "driver":
            self.kill_the_driver()
        elif what == "worker":
            self.kill_a_worker(chance.randrange(2))
        else:
            self.end_connections()


def unbroken(folder: Path) -> Storage:
    storage = Storage(open_file(folder / "beside.sqlite"))
    record = storage.begin("play", {})
    crew.search_with(storage, record, play.Carried())
    return storage


@pytest.mark.slow
def test_a_run_whose_parts_are_killed_at_random_ends_as_an_unbroken_one(
    make_postgres_database: Callable[[], str], tmp_path: Path
) -> None:
    url, chance = make_postgres_database(), random.Random(2026)
    engine = open_url(url, "--database")
    Storage(engine)
    end = time.monotonic() + 180
    with ExitStack() as stack:
        stage = Stage(url, stack)
        plan = chance.sample(("driver", "worker", "connections"), 12, counts=(3, 3, 6))
        while stage.driver.poll() is None:
            assert time.monotonic() < end, "it did not end"
            time.sleep(chance.uniform(0.2, 2.0))
            if stage.driver.poll() is None and plan:
                stage.disturb(plan.pop(), chance)
        assert stage.driver.returncode == 0, stage.driver.communicate()[1]
    assert all(stage.deaths.values()), (stage.deaths, plan)
    whole = unbroken(tmp_path).record("play-1").graph
    found = Storage(engine).record("play-1").graph
    assert whole.judged > 40
    assert found.nodes == whole.nodes
    assert found.dead_ends == whole.dead_ends
    with reading(engine) as session:
        states = session.scalars(select(WORK.c.state)).all()
        judged = session.scalars(select(RESULTS.c.candidate).where(RESULTS.c.what == "judge")).all()
    # Unique by the table's key: what is to be seen is that none is missing, and none is left over.
    assert set(states) == {"done"}
    assert sorted(judged) == sorted({hash_source(node.draft.source) for node in found.nodes})
    engine.dispose()
