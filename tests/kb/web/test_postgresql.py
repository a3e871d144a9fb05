"""Every page over a record in PostgreSQL: the same as over SQLite, on connections that cannot write."""

from __future__ import annotations

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from starlette.testclient import TestClient

from kb.app.live import working_on
from kb.web.app import make_app
from kb.web.guard import Doors
from kb.web.text import address

HOST = "127.0.0.1:8321"
PATHS = [
    "/", "/runs/rows-1", "/runs/rows-1/tree", "/runs/rows-1/live", "/runs/rows-1/nodes/3",
    "/runs/rows-1/nodes/3/diff/reference", "/ideas", f"/ideas/{address('keep-the-row-in-cache')}",
    "/documents", "/lessons", "/notes", "/compare?run=rows-1&other=rows-2",
]  # fmt: skip


@pytest.fixture
def pages(make_postgres_database, monkeypatch, request):
    monkeypatch.setenv("KB_DATABASE", make_postgres_database())
    runs, look = request.getfixturevalue("runs"), request.getfixturevalue("look")
    assert runs.storage.engine.dialect.name == "postgresql"
    runs.small()
    runs.small()
    sources = look()
    yield (
        sources,
        TestClient(make_app(sources, Doors(hosts=frozenset({HOST}))), base_url=f"http://{HOST}"),
    )
    sources.reader.dispose()
    sources.writer.dispose()
    runs.storage.engine.dispose()


@pytest.mark.slow
def test_every_page_is_there(pages):
    _, client = pages
    assert {path: client.get(path).status_code for path in PATHS} == dict.fromkeys(PATHS, 200)
    assert "keep-the-row-in-cache" in client.get("/ideas").text


def test_pages_cannot_write(pages):
    sources, _ = pages
    with pytest.raises(DBAPIError, match="read-only"), sources.reader.begin() as connection:
        connection.execute(text("DELETE FROM nodes"))


@pytest.mark.slow
def test_a_page_is_true_of_what_is_written_meanwhile(pages, runs, passed_outcome, new_idea):
    _, client = pages
    record = runs.begin("later")
    runs.propose(record, 0, None, new_idea("Tile by eight"))
    assert client.get(f"/runs/{record.run}").status_code == 200
    runs.node(record, (0, 0, 0, 0), passed_outcome(4.0))
    assert "4.00" in client.get(f"/runs/{record.run}").text


@pytest.mark.slow
def test_a_run_is_running_while_a_process_works_on_it(pages, runs):
    _, client = pages
    run = runs.begin("later").run
    with working_on(runs.home, run):
        assert client.get(f"/runs/{run}.json").json()["run"]["state"] == "running"
    assert client.get(f"/runs/{run}.json").json()["run"]["state"] == "interrupted"


@pytest.mark.slow
def test_a_connection_that_ended_costs_no_page(pages, runs):
    _, client = pages
    others = "pid <> pg_backend_pid() AND datname = current_database()"
    assert client.get("/").status_code == 200
    with runs.storage.engine.begin() as connection:
        end = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}"
        connection.execution_options(kb_write="rows").execute(text(end))
    assert {path: client.get(path).status_code for path in PATHS} == dict.fromkeys(PATHS, 200)
