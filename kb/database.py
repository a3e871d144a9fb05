"""One SQL database for what is known and for what was run.

SQLite in WAL mode by default; the PostgreSQL or SQLite that ``KB_DATABASE`` names where that is set. On
both, one process writes while others read, and a reader sees one state from its begin to its end.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import (
    URL,
    Column,
    Connection,
    Engine,
    Integer,
    Table,
    create_engine,
    delete,
    event,
    insert,
    inspect,
    make_url,
    select,
)
from sqlalchemy.exc import (
    ArgumentError,
    DatabaseError,
    DataError,
    IntegrityError,
    InternalError,
    NoSuchModuleError,
    NotSupportedError,
    ProgrammingError,
)
from sqlalchemy.orm import DeclarativeBase, Session

from kb.config import Home
from kb.errors import ConfigError, StoreError
from kb.migrations import MIGRATIONS

BUSY_SECONDS = 60
_BUGS = (DataError, IntegrityError, InternalError, NotSupportedError, ProgrammingError)
_WRITER = 0x6B62  # the advisory lock of PostgreSQL that one writer of `kb` holds at a time
_REPLACE = "restore a copy, or move the file away: ingest your documents again; runs in it are lost"

# What the database says, and what the reader of the message can do about it.
_ADVICE = (
    ("not a database", _REPLACE),
    ("malformed", _REPLACE),
    ("readonly", "make the file and its folder writable, or set KB_HOME to another folder"),
    ("unable to open", "make the folder writable, or set KB_HOME to another folder"),
    ("disk is full", "free some space, then run the command again: nothing is lost"),
    ("disk i/o", "check the disk and its free space, then run the command again"),
    ("locked", "wait for the other kb process to end, then run the command again"),
    ("lock timeout", "wait for the other kb process to end, then run the command again"),
)


class Base(DeclarativeBase):
    """All tables of `kb`."""


SCHEMA = Table(
    "schema_version",
    Base.metadata,
    Column(
        "version", Integer, primary_key=True, autoincrement=False
    ),  # how many of `MIGRATIONS` ran
)


def open_engine(home: Home) -> Engine:
    """Open the database of `home`, or the one that ``KB_DATABASE`` names.

    Nothing is read or written yet.

    Raises:
        ConfigError: the folder cannot be made, or the URL cannot be used.
    """
    given = os.environ.get("KB_DATABASE")
    if not given:
        home.make()
        return open_file(home.database)
    try:
        url = make_url(given)
        return _ENGINES[url.get_backend_name()](url)
    except (ArgumentError, KeyError, NoSuchModuleError, ImportError) as error:
        # The URL may hold a password: the message does not repeat it.
        raise ConfigError(
            f"KB_DATABASE: expected the URL of a PostgreSQL or SQLite database with an installed driver, "
            f"found one that fails ({type(error).__name__}): unset it, or write "
            "postgresql+psycopg://USER@HOST/NAME and pip install 'kernel-kb[postgres]'"
        ) from error


def is_begun(home: Home) -> bool:
    """Return whether there may be something to read: ``KB_DATABASE`` is set, or the file is there."""
    return bool(os.environ.get("KB_DATABASE")) or home.database.exists()


def open_file(path: Path) -> Engine:
    """Open a database in a file of its own, wherever ``KB_DATABASE`` points."""
    return _sqlite(make_url(f"sqlite:///{path}"))


def create_tables(engine: Engine) -> None:
    """Create the tables of `Base`, and bring those of an older version up to date.

    Only tables whose modules are imported are known.

    Raises:
        StoreError: the database cannot be read or written, or a newer version wrote it.
    """
    with reading(engine) as session:
        version, missing = _looked_at(session.connection())
    if version > len(MIGRATIONS):
        raise StoreError(
            f"{_shown(engine)}: expected a database of version {len(MIGRATIONS)} or older, found {version}: "
            "install the kb that wrote it, or a newer one"
        )
    if version == len(MIGRATIONS) and not missing:
        return
    with writing(engine) as session:
        connection = session.connection()
        version, _ = _looked_at(connection)  # another process may have been first
        for migrate in MIGRATIONS[version:]:
            migrate(connection)
        Base.metadata.create_all(connection)
        connection.execute(delete(SCHEMA))
        connection.execute(insert(SCHEMA).values(version=len(MIGRATIONS)))


def _looked_at(connection: Connection) -> tuple[int, set[str]]:
    """Return the version of the tables, 0 where none is on record, and the tables that are not there."""
    there = set(inspect(connection).get_table_names())
    version = connection.scalar(select(SCHEMA.c.version)) if SCHEMA.name in there else 0
    return version or 0, Base.metadata.tables.keys() - there


@contextmanager
def reading(engine: Engine) -> Iterator[Session]:
    """Open a session that sees one consistent state and writes nothing."""
    with guarded(engine), Session(engine) as session:
        yield session


@contextmanager
def writing(engine: Engine) -> Iterator[Session]:
    """Open a session that commits at its end, all or nothing, and waits for other writers."""
    with guarded(engine), engine.connect() as plain:
        connection = plain.execution_options(kb_write=True)
        with connection.begin(), Session(connection) as session:
            yield session
            session.flush()


@contextmanager
def guarded(engine: Engine) -> Iterator[None]:
    """Turn what the user can mend about the database into one line; let bugs through.

    Raises:
        StoreError: the database is damaged, read-only, locked, full or away.
    """
    try:
        yield
    except _BUGS:
        raise
    except DatabaseError as error:
        found = " ".join(str(error.orig).split())
        if "no such" in found:  # a wrong statement of ours, not a damaged file
            raise
        advice = next((does for mark, does in _ADVICE if mark in found.lower()), None)
        raise StoreError(
            f"{_shown(engine)}: expected a readable and writable database, found {found!r}: "
            f"{advice or 'check that the database is there and answers'}"
        ) from error


def _shown(engine: Engine) -> str:
    return engine.url.render_as_string(hide_password=True).removeprefix("sqlite:///")


def _postgresql(url: URL) -> Engine:
    # A run may last for hours: a connection that the server dropped meanwhile is opened again.
    engine = create_engine(url, pool_pre_ping=True)

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        # As with SQLite: what a writer looked for and did not find, nobody else adds before it commits.
        if connection.get_execution_options().get("kb_write"):
            connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{BUSY_SECONDS}s'")
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_WRITER})")
        else:
            connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")

    return engine


def _sqlite(url: URL) -> Engine:
    engine = create_engine(url, connect_args={"timeout": BUSY_SECONDS})

    @event.listens_for(engine, "connect")
    def _connect(connection: sqlite3.Connection, _record: Any) -> None:
        # The driver begins transactions too late for a consistent read: _begin does it instead.
        connection.isolation_level = None
        for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}").close()

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        # A writer that starts as a reader fails at once, without waiting, when another wrote
        # in between; one that asks for the write lock first waits its turn.
        writes = connection.get_execution_options().get("kb_write")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


_ENGINES = {"postgresql": _postgresql, "sqlite": _sqlite}
