"""A database connection that can read and cannot write, so that a page never holds up a run."""

from __future__ import annotations

import sqlite3
from typing import Any

from sqlalchemy import Engine, create_engine, event

# A page waits so long for a lock, which only a recovery after a crash holds against readers in WAL mode.
BUSY_SECONDS = 5


def open_reader(engine: Engine) -> Engine:
    """Return an engine on the same database whose connections refuse to write.

    On SQLite a reader sees one consistent state through the write-ahead log, while another process
    goes on writing. On PostgreSQL the transactions are declared read-only.
    """
    if engine.dialect.name != "sqlite":
        made = create_engine(engine.url, pool_size=8, pool_pre_ping=True)
        return (
            made.execution_options(postgresql_readonly=True) if made.name == "postgresql" else made
        )
    made = create_engine(engine.url, connect_args={"timeout": BUSY_SECONDS}, pool_size=8)

    @event.listens_for(made, "connect")
    def _connect(connection: sqlite3.Connection, _record: Any) -> None:
        connection.isolation_level = None
        connection.execute("PRAGMA query_only=ON").close()

    @event.listens_for(made, "begin")
    def _begin(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN")

    return made
