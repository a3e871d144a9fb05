"""One SQL database for what is known and for what was run.

SQLite in WAL mode by default, so that one process writes while others read; any URL that
SQLAlchemy knows where ``KB_DATABASE`` is set (PostgreSQL is the one that is meant).
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import make_url
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
from kb.errors import StoreError

BUSY_SECONDS = 60
_BUGS = (DataError, IntegrityError, InternalError, NotSupportedError, ProgrammingError)

# What SQLite says, and what the reader of the message can do about it.
_ADVICE = (
    (
        "not a database",
        "move the file away (documents are ingested again; runs in it are lost) or restore a copy",
    ),
    (
        "malformed",
        "move the file away (documents are ingested again; runs in it are lost) or restore a copy",
    ),
    ("readonly", "make the file and its folder writable, or set KB_HOME to another folder"),
    ("unable to open", "make the folder writable, or set KB_HOME to another folder"),
    ("disk is full", "free some space, then run the command again: nothing is lost"),
    ("disk i/o", "check the disk and its free space, then run the command again"),
    ("locked", "wait for the other kb process to end, then run the command again"),
)


class Base(DeclarativeBase):
    """All tables of `kb`."""


class Database:
    """Opens short sessions, and tells the user what is wrong with the database in one line.

    Args:
        url: SQLAlchemy URL.
        shown: what messages call it (a path, or the URL without its password).
    """

    def __init__(self, url: str, shown: str) -> None:
        self.shown = shown
        try:
            self.engine = _engine(url)
        except (ArgumentError, NoSuchModuleError, ImportError) as error:
            raise StoreError(
                f"KB_DATABASE: expected a database URL with an installed driver, found {shown} ({error}): "
                "unset it, or write sqlite:///FILE or postgresql+psycopg://USER@HOST/NAME"
            ) from error

    @classmethod
    def open(cls, home: Home) -> Database:
        """Open the database of `home` and make the tables that are missing.

        Import the modules that define tables before this is called.

        Raises:
            StoreError: it cannot be opened, read or written.
        """
        given = os.environ.get("KB_DATABASE")
        if given:
            try:
                shown = make_url(given).render_as_string(hide_password=True)
            except ArgumentError:
                shown = repr(given)
            database = cls(given, shown)
        else:
            home.make()
            database = cls(f"sqlite:///{home.database}", str(home.database))
        database.create_tables()
        return database

    def create_tables(self) -> None:
        """Create the tables that are missing."""
        with self._guarded(), self.engine.connect() as connection:
            names = self.engine.dialect.get_table_names(connection)
        if set(Base.metadata.tables) <= set(names):
            return
        with self._guarded(), self._writer() as connection:
            Base.metadata.create_all(connection)

    @contextmanager
    def read(self) -> Iterator[Session]:
        """Open a session that sees one consistent state and writes nothing."""
        with self._guarded(), Session(self.engine) as session:
            yield session

    @contextmanager
    def write(self) -> Iterator[Session]:
        """Open a session that commits at its end, all or nothing."""
        with self._guarded(), self._writer() as connection, Session(connection) as session:
            yield session
            session.flush()

    @contextmanager
    def _writer(self) -> Iterator[Connection]:
        with (
            self.engine.connect().execution_options(kb_write=True) as connection,
            connection.begin(),
        ):
            yield connection

    @contextmanager
    def _guarded(self) -> Iterator[None]:
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
                f"{self.shown}: expected a readable and writable database, found: {found}: "
                f"{advice or 'check that the database is there and answers'}"
            ) from error


def _engine(url: str) -> Engine:
    if not url.startswith("sqlite"):
        return create_engine(url, pool_pre_ping=True)
    engine = create_engine(url, connect_args={"timeout": BUSY_SECONDS})

    @event.listens_for(engine, "connect")
    def _connect(connection: sqlite3.Connection, _record: Any) -> None:
        # The driver's own transactions start too late: begin() below starts them.
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
