"""A driver and workers on one PostgreSQL, of which something is killed again and again."""

from __future__ import annotations

import random
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import crew
import play
from sqlalchemy import NullPool, create_engine, func, select, text

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

    def __init__(self, url: str, stack: ExitStack, workers: int, rounds: int) -> None:
        self._url = url
        self._rounds = str(rounds)
        self._stack = stack
        self._engine = create_engine(url, poolclass=NullPool)
        self.driver = self._start("--drive", "--rounds", self._rounds)
        self.workers = [self._start("--seconds", "0.02") for _ in range(workers)]
        self.deaths: Counter[str] = Counter()

    def _start(self, *options: str) -> subprocess.Popen[str]:
        return self._stack.enter_context(crew.started(self._url, "--lease", LEASE, *options))

    def kill_the_driver(self) -> None:
        self.driver.kill()
        self.driver.wait()
        self.deaths["driver"] += 1
        self.driver = self._start("--drive", "--rounds", self._rounds)

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

    def await_progress(self, results: int, seconds: float) -> None:
        """Wait until so many more results are there, the driver has ended, or for some seconds."""
        end, enough = time.monotonic() + seconds, self._results() + results
        while time.monotonic() < end and self.driver.poll() is None and self._results() < enough:
            time.sleep(0.02)

    def _results(self) -> int:
        with self._engine.connect() as connection:
            return connection.scalar(select(func.count()).select_from(RESULTS)) or 0

    def disturb(self, what: str, chance: random.Random) -> None:
        if what == "driver":
            self.kill_the_driver()
        elif what == "worker":
            self.kill_a_worker(chance.randrange(len(self.workers)))
        else:
            self.end_connections()


def unbroken(folder: Path, rounds: int) -> Storage:
    storage = Storage(open_file(folder / "beside.sqlite"))
    record = storage.begin("play", {})
    crew.search_with(storage, record, play.Carried(), rounds)
    return storage


def disturbed(
    url: str, plan: list[str], chance: random.Random, *, workers: int = 2, rounds: int = crew.ROUNDS
) -> Counter[str]:
    """Search while things are killed by plan, from its end; return how often what was.

    The next dies after some time, or after three results: so a run of thirty sees some ten deaths.
    """
    engine = open_url(url, "--database")
    Storage(engine)
    engine.dispose()
    end = time.monotonic() + 200 + 10 * len(plan)
    with ExitStack() as stack:
        stage = Stage(url, stack, workers, rounds)
        while stage.driver.poll() is None:
            if time.monotonic() >= end:
                raise TimeoutError("it did not end")
            stage.await_progress(3, chance.uniform(0.2, 2.0))
            if stage.driver.poll() is None and plan:
                stage.disturb(plan.pop(), chance)
        assert stage.driver.returncode == 0, stage.driver.communicate()[1]
    return stage.deaths


def check(
    url: str, folder: Path, rounds: int = crew.ROUNDS, runs: Sequence[str] = ("play-1",)
) -> int:
    """Compare runs with an unbroken one, and all results with its candidates; return how many."""
    whole = unbroken(folder, rounds).record("play-1").graph
    engine = open_url(url, "--database")
    for run in runs:
        found = Storage(engine).record(run).graph
        assert len(found.nodes) == len(whole.nodes)
        for one, other in zip(found.nodes, whole.nodes, strict=True):
            # Two graphs are too long to be read: the first node that differs is shown.
            assert one == other, f"{one}\ninstead of\n{other}"
        assert found.dead_ends == whole.dead_ends
    with reading(engine) as session:
        states = session.scalars(select(WORK.c.state)).all()
        judged = session.scalars(select(RESULTS.c.candidate).where(RESULTS.c.what == "judge")).all()
    engine.dispose()
    # Unique by the table's key: what is to be seen is that none is missing, and none is left over.
    assert set(states) == {"done"}
    assert sorted(judged) == sorted({hash_source(node.draft.source) for node in whole.nodes})
    return len(judged)
