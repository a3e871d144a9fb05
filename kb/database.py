"""One SQL database for what is known and for what was run.

SQLite in WAL mode by default; the PostgreSQL or SQLite that ``KB_DATABASE`` names where that is set. On
both, one process writes while others read, and a reader sees one state from its begin to its end.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import (
    URL,
    Column,
    Connection,
    Engine,
    Float,
    Integer,
    Table,
    create_engine,
    delete,
    event,
    insert,
    inspect,
    make_url,
    select,
    text,
)
from sqlalchemy.exc import (
    ArgumentError,
    DatabaseError,
    DataError,
    IntegrityError,
    InternalError,
    NoSuchModuleError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import DeclarativeBase, Session
from sqlalchemy.sql.functions import FunctionElement

from kb.config import Home
from kb.errors import ConfigError, ConnectionLost, StoreError
from kb.migrations import MIGRATIONS
from kb.progress import say

T = TypeVar("T")
BUSY_SECONDS = 60
PATIENCE = 300.0  # seconds that a database may be away before who needs it gives up
_PAUSE = (0.1, 5.0)  # seconds between attempts to reach it, at first and at last
# Of PostgreSQL: connection exceptions, shutdowns, starting up, a standby; deadlocks and their like.
_LOST = ("08", "57P", "25006", "40001", "40P01", "53300")
_BUGS = (DataError, IntegrityError, InternalError, NotSupportedError, ProgrammingError)
_WRITER = 0x6B62  # the advisory lock of PostgreSQL that one writer of `kb` holds at a time
_HOLD = text(
    "SELECT pg_try_advisory_xact_lock(hashtextextended(current_schema() || '/' || :name, 0))"
)
_LOOK = text(
    "SELECT pg_try_advisory_xact_lock_shared(hashtextextended(current_schema() || '/' || :name, 0))"
)
_HELD_LONG = (
    "idle_in_transaction_session_timeout = 0",
    "tcp_keepalives_idle = 30",
    "tcp_keepalives_interval = 10",
    "tcp_keepalives_count = 3",
)
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


class DatabaseClock(FunctionElement[float]):
    """Seconds since the epoch by the clock of the database, at the moment of the statement."""

    type = Float()
    inherit_cache = True


@compiles(DatabaseClock, "postgresql")
def _clock_of_postgresql(*_: object, **__: object) -> str:
    return "CAST(extract(epoch FROM clock_timestamp()) AS DOUBLE PRECISION)"


@compiles(DatabaseClock, "sqlite")
def _clock_of_sqlite(*_: object, **__: object) -> str:
    return "((julianday('now') - 2440587.5) * 86400.0)"


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
    return open_url(given, "KB_DATABASE")


def open_url(given: str, named: str) -> Engine:
    """Open the database of a URL.

    Args:
        named: what the user gave it as, for the message.

    Raises:
        ConfigError: the URL cannot be used.
    """
    try:
        url = make_url(given)
        return _ENGINES[url.get_backend_name()](url)
    except (ArgumentError, KeyError, NoSuchModuleError, ImportError) as error:
        # The URL may hold a password: the message does not repeat it.
        raise ConfigError(
            f"{named}: expected the URL of a PostgreSQL or SQLite database with an installed driver, "
            f"found one that fails ({type(error).__name__}): leave it out, or write "
            "postgresql+psycopg://USER@HOST/NAME and pip install 'kernel-kb[postgres]'"
        ) from error


def is_begun(home: Home) -> bool:
    """Return whether there may be something to read: ``KB_DATABASE`` is set, or the file is there."""
    return bool(os.environ.get("KB_DATABASE")) or home.database.exists()


def open_file(path: Path) -> Engine:
    """Open a database in a file of its own, wherever ``KB_DATABASE`` points."""
    return _sqlite(URL.create("sqlite", database=str(path)))


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
def claiming(engine: Engine) -> Iterator[Session]:
    """Open a session that writes rows which it has locked itself, while others write other rows.

    It commits at its end, all or nothing. On SQLite it waits for other writers, as `writing` does.
    """
    with guarded(engine), engine.connect() as plain:
        connection = plain.execution_options(kb_write="rows")
        with connection.begin(), Session(connection) as session:
            yield session
            session.flush()


@contextmanager
def holding(engine: Engine, name: str) -> Iterator[bool]:
    """Hold a name in a PostgreSQL database while the body runs; yield whether nobody else holds it.

    A transaction that stays open holds it, so that it is held behind a pooler too. The server lets go of
    it when the process ends or the connection breaks, and looks after a minute whether its machine is there.
    """
    with ExitStack() as held:
        with guarded(engine):
            connection = held.enter_context(engine.connect())
            transaction = connection.execution_options(kb_write="rows").begin()
            # An open snapshot would keep the server from cleaning up: what comes last takes none.
            connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
            free = bool(connection.scalar(_HOLD, {"name": name}))
            for setting in _HELD_LONG:
                connection.exec_driver_sql(f"SET LOCAL {setting}")
        try:
            yield free
        finally:
            with suppress(DatabaseError):  # a connection that broke holds nothing
                transaction.rollback()


def is_held(engine: Engine, name: str) -> bool:
    """Say whether somebody holds a name in a PostgreSQL database; many may look at the same time."""
    with reading(engine) as session:
        return not session.scalar(_LOOK, {"name": name})


def outlast(engine: Engine, do: Callable[[], T], patience: float = PATIENCE) -> T:
    """Return what `do` returns, called again each time that it loses the connection to the database.

    Whether the last transaction of a lost connection was committed is not known: `do` must come to the
    same when it is called again.

    Args:
        patience: seconds that the database may be away at a stretch.

    Raises:
        ConnectionLost: it was away for longer.
    """
    while True:
        try:
            return do()
        except ConnectionLost as error:
            lost = error
        say(f"the database is away, trying again: {lost}")
        _wait_for(engine, patience, lost)


def _wait_for(engine: Engine, patience: float, lost: ConnectionLost) -> None:
    """Return once the database answers."""
    pause, end = _PAUSE[0], time.monotonic() + patience
    while True:
        time.sleep(pause)
        try:
            with reading(engine) as session:
                session.execute(select(1))
        except ConnectionLost:
            pause = min(1.5 * pause, _PAUSE[1])
            if time.monotonic() > end:
                raise lost from None
        else:
            return


@contextmanager
def guarded(engine: Engine) -> Iterator[None]:
    """Turn what the user can mend about the database into one line; let bugs through.

    Raises:
        ConnectionLost: the server ended the connection, or cannot be reached.
        StoreError: the database is damaged, read-only, locked, full or away.
    """
    try:
        yield
    except DatabaseError as error:
        found = " ".join(str(error.orig).split())
        if engine.dialect.name == "postgresql" and _is_lost(error):
            raise ConnectionLost(
                f"{_shown(engine)}: expected a connection to the database, found {found!r}: "
                "check that the server runs and can be reached"
            ) from error
        if isinstance(error, _BUGS):
            raise
        if "no such" in found:  # a wrong statement of ours, not a damaged file
            raise
        advice = next((does for mark, does in _ADVICE if mark in found.lower()), None)
        raise StoreError(
            f"{_shown(engine)}: expected a readable and writable database, found {found!r}: "
            f"{advice or 'check that the database is there and answers'}"
        ) from error


def _is_lost(error: DatabaseError) -> bool:
    """Say whether the same may well succeed on another connection, a moment later."""
    state = getattr(error.orig, "sqlstate", None)
    if state is None:  # no word from a server: it is away, or the line broke
        return bool(error.connection_invalidated) or isinstance(error, OperationalError)
    return str(state).startswith(_LOST)


def _shown(engine: Engine) -> str:
    if engine.dialect.name == "sqlite":
        return str(engine.url.database)
    return engine.url.render_as_string(hide_password=True)


def _postgresql(url: URL) -> Engine:
    # A run may last for hours: a connection that the server dropped meanwhile is opened again.
    engine = create_engine(url, pool_pre_ping=True)

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        # As with SQLite: what a writer looked for and did not find, nobody else adds before it commits.
        writes = connection.get_execution_options().get("kb_write")
        if writes:
            connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{BUSY_SECONDS}s'")
            if writes != "rows":
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
