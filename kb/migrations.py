"""What takes a database of an older version to the present one, step by step.

A change of a table that exists adds a function at the end of `MIGRATIONS`; tables that are new need none.
Numbers are never given twice, and what a function does is never changed: databases went through it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlalchemy import Connection, inspect


def add_columns(connection: Connection, table: str, columns: Mapping[str, str]) -> None:
    """Add the columns that `table` lacks, by name and SQL type; nothing where there is no such table."""
    looked = inspect(connection)
    if not looked.has_table(table):
        return
    there = {column["name"] for column in looked.get_columns(table)}
    for name, kind in columns.items():
        if name not in there:
            connection.exec_driver_sql(f"ALTER TABLE {table} ADD COLUMN {name} {kind}")


def _read_scopes_and_pages(connection: Connection) -> None:
    empty = "VARCHAR DEFAULT '' NOT NULL"
    add_columns(connection, "documents", {"stamp": empty, "found": empty})
    pages = {"first_page": "INTEGER", "last_page": "INTEGER"}
    add_columns(connection, "passages", {**pages, "flags": empty})
    add_columns(connection, "passages", {"scope": "VARCHAR", "found": "VARCHAR"})


def _texts_of_any_length(connection: Connection) -> None:
    if connection.dialect.name != "postgresql":  # SQLite never held anybody to a length
        return
    for table in ("runs", "proposals", "nodes", "dead_ends", "sources", "outcomes", "exchanges",
                  "model_calls", "model_choices", "given"):  # fmt: skip
        columns = (
            inspect(connection).get_columns(table) if inspect(connection).has_table(table) else []
        )
        for column in columns:
            if getattr(column["type"], "length", None) is not None:
                name = f'"{column["name"]}"'
                connection.exec_driver_sql(f"ALTER TABLE {table} ALTER COLUMN {name} TYPE VARCHAR")


def _no_proposed_figures(connection: Connection) -> None:
    connection.exec_driver_sql("DROP TABLE IF EXISTS facts")
    if inspect(connection).has_table("state"):
        connection.exec_driver_sql("DELETE FROM state WHERE name = 'facts'")


def _when_candidates_were_judged(connection: Connection) -> None:
    add_columns(connection, "nodes", {"elapsed": "FLOAT"})


def _documents_are_found_by_name(connection: Connection) -> None:
    if inspect(connection).has_table("documents"):
        index = "CREATE INDEX IF NOT EXISTS ix_documents_shown ON documents (shown)"
        connection.exec_driver_sql(index)


MIGRATIONS: tuple[Callable[[Connection], None], ...] = (
    _read_scopes_and_pages,  # 1: where versions were not counted yet
    _texts_of_any_length,  # 2
    _no_proposed_figures,  # 3: figures that were accepted are in targets/*.yaml of the home
    _when_candidates_were_judged,  # 4
    _documents_are_found_by_name,  # 5
)
