"""A PostgreSQL that ends and comes back at the same address, as clients see a fail-over."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import crew
import pytest
import stage
from postgres_server import NoServer, PostgresServer, running_postgres
from sqlalchemy import create_engine, text

from kb.database import open_url
from search.runs.storage import Storage
from search.work.queue import WorkQueue


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with ExitStack() as stack:
        try:
            yield stack.enter_context(running_postgres())
        except NoServer as error:
            pytest.skip(str(error))


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["ended", "killed"])
def test_a_server_that_is_replaced_under_a_search_loses_nothing_and_doubles_nothing(
    server: PostgresServer, how: signal.Signals, tmp_path: Path
) -> None:
    maintenance = create_engine(f"{server.url}/postgres", isolation_level="AUTOCOMMIT")
    with maintenance.connect() as connection:
        connection.execute(text("CREATE DATABASE kb"))
    maintenance.dispose()
    url = f"{server.url}/kb"
    engine = open_url(url, "--database")
    Storage(engine)
    queue = WorkQueue(engine)
    end = time.monotonic() + 200
    said = []
    with ExitStack() as started:
        worker = started.enter_context(crew.started(url, "--lease", "5", "--seconds", "0.05"))
        driver = started.enter_context(crew.started(url, "--lease", "5", "--drive"))
        for more in (5, 15, 25):
            while queue.tally().results < more:  # the server goes where work is under way
                if time.monotonic() >= end:
                    raise TimeoutError
                assert driver.poll() is None
                time.sleep(0.02)
            engine.dispose()
            server.stop(how)
            time.sleep(0.3)
            server.start()
        assert driver.wait(timeout=200) == 0, driver.communicate()[1]
        assert worker.poll() is None
        worker.send_signal(signal.SIGTERM)
        said = worker.communicate(timeout=60)[1]
        assert worker.returncode == 0, said
    assert "the database is away, trying again" in said
    assert stage.check(url, tmp_path) > 30
    engine.dispose()
