"""A database of an older version opens, and says everything that it said before."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pydantic import TypeAdapter
from sqlalchemy import Engine, inspect, select, text

from kb.config import Home
from kb.database import SCHEMA, create_tables, open_engine, reading, writing
from kb.errors import StoreError
from kb.migrations import MIGRATIONS
from kb.store.documents import Store
from kb.store.tables import Base
from search.runs.snapshot import RunSnapshot
from search.runs.spending import spending
from search.runs.storage import Storage

BEFORE_VERSIONS = Path(__file__).parent / "version_0.sql"


def version(engine: Engine) -> int | None:
    with reading(engine) as session:
        return session.scalar(select(SCHEMA.c.version))


def columns(engine: Engine) -> dict[str, set[str | None]]:
    """Return by table its columns and indexes."""
    with reading(engine) as session:
        looked = inspect(session.connection())
        return {
            name: {one["name"] for one in (*looked.get_columns(name), *looked.get_indexes(name))}
            for name in Base.metadata.tables
        }


@pytest.fixture
def old(home: Home) -> Engine:
    """A home as a version wrote it that counted no versions."""
    with sqlite3.connect(home.database) as connection:
        connection.executescript(BEFORE_VERSIONS.read_text())
    connection.close()
    return open_engine(home)


def test_documents_and_runs_of_a_home_before_versions_are_all_there(old: Engine) -> None:
    storage = Storage(old)
    assert version(old) == len(MIGRATIONS)
    store = Store(old)
    assert store.stats() == {"documents": 1, "passages": 1, "tokens": 4, "pending": 0}
    (passage,) = store.pages(["notes/tile.md"])["notes/tile.md"]
    assert (passage.document, passage.text) == ("notes/tile.md", "Pad the tile.")
    (row,) = storage.runs()
    graph = storage.record(row.run).graph
    assert [node.outcome.kind for node in graph.nodes if node.outcome] == ["passed"] * 4
    assert graph.best_speedup > 1
    assert [(one["model"], one["calls"]) for one in spending(old, row.run)] == [("", 1)]
    kept = RunSnapshot(old, row.run).once("hits", "q", TypeAdapter(list[int]), lambda: [3])
    assert kept == [1, 2]


def test_tables_of_what_is_gone_are_gone_too(old: Engine) -> None:
    create_tables(old)
    with reading(old) as session:
        tables = set(inspect(session.connection()).get_table_names())
    assert tables == Base.metadata.tables.keys()


def test_a_migrated_database_has_the_tables_of_a_new_one(old: Engine, tmp_path: Path) -> None:
    create_tables(old)
    new = open_engine(Home(tmp_path / "new"))
    create_tables(new)
    assert columns(old) == columns(new)


def test_a_new_database_has_the_present_version(engine: Engine) -> None:
    create_tables(engine)
    create_tables(engine)
    assert version(engine) == len(MIGRATIONS)


def test_a_database_of_a_newer_version_is_one_line_and_untouched(engine: Engine) -> None:
    create_tables(engine)
    with writing(engine) as session:
        session.execute(text("UPDATE schema_version SET version = 99"))
    with pytest.raises(StoreError, match=r"version \d+ or older, found 99: install the kb"):
        create_tables(engine)
    assert version(engine) == 99


def test_documents_of_the_first_version_get_the_columns_that_came_later(engine: Engine) -> None:
    with writing(engine) as session:
        session.execute(
            text(
                "CREATE TABLE documents (id INTEGER PRIMARY KEY, key VARCHAR UNIQUE NOT NULL, "
                "shown VARCHAR NOT NULL, digest VARCHAR NOT NULL, kind VARCHAR NOT NULL, "
                "name VARCHAR NOT NULL, title VARCHAR NOT NULL, record VARCHAR, body VARCHAR NOT NULL, "
                "scope VARCHAR NOT NULL, symptoms VARCHAR NOT NULL, ingested FLOAT NOT NULL)"
            )
        )
        session.execute(
            text(
                "INSERT INTO documents VALUES (1, 'k', 'k', 'd', 'document', 'k', 'K', NULL, '', "
                "'{}', '[]', 0)"
            )
        )
    create_tables(engine)
    assert Store(engine).stamps() == {"k": ""}


def test_names_that_were_limited_may_have_any_length(engine: Engine) -> None:
    with writing(engine) as session:
        session.execute(text("CREATE TABLE dead_ends (run VARCHAR(3), step VARCHAR(3))"))
    create_tables(engine)
    with writing(engine) as session:
        session.execute(text("INSERT INTO dead_ends VALUES ('a long name', '0.0.0.0.0')"))


def test_processes_that_open_a_new_database_at_once_make_it_once(engine: Engine) -> None:
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda _: create_tables(engine), range(6)))
    assert version(engine) == len(MIGRATIONS)
