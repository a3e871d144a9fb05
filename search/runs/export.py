"""A run as one file that can be carried to another record: what was asked, answered, judged and given."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import tempfile
from collections.abc import Callable
from pathlib import Path, PurePath
from typing import Any

from sqlalchemy import Engine, LargeBinary, Table, insert, select, update

from kb.database import create_tables, open_file, reading, writing
from kb.errors import KbError, StoreError
from search.runs.calls import CALLS
from search.runs.imports import (
    LARGEST,
    LONGEST_LINE,
    MOST_ROWS,
    check_row,
    read_rows,
    run_name,
    shortened,
)
from search.runs.snapshot import GIVEN
from search.runs.spending import CHOICES
from search.runs.storage import Record, Storage
from search.runs.tables import DEAD_ENDS, EXCHANGES, NODES, OUTCOMES, PROPOSALS, RUNS, SOURCES

FORMAT = "kb run 1"
_OF_RUN = (PROPOSALS, NODES, DEAD_ENDS, CALLS, CHOICES, GIVEN)
_SHARED = {SOURCES.name: SOURCES, OUTCOMES.name: OUTCOMES, EXCHANGES.name: EXCHANGES}
_TABLES = {RUNS.name: RUNS, **{table.name: table for table in _OF_RUN}, **_SHARED}


def write_run(storage: Storage, run: str, path: Path) -> int:
    """Write `run` to `path`, compressed; return how many rows it has.

    Folders of the machine are left out. The same record gives the same bytes.

    Raises:
        StoreError: there is no such run, it is larger than what is read, or the file cannot be written.
    """
    storage.run(run)
    create_tables(storage.engine)
    with reading(storage.engine) as session:
        rows: list[dict[str, Any]] = [{"format": FORMAT, "run": run}]
        for table in (RUNS, *_OF_RUN):
            found = session.execute(select(table).where(table.c.run == run)).mappings().all()
            rows += sorted(
                ({"table": table.name, "row": _plain(table, dict(one))} for one in found),
                key=lambda one: json.dumps(one["row"], sort_keys=True),
            )
        for name, keys in _referred(rows).items():
            table = _SHARED[name]
            (key,) = table.primary_key.columns
            for one in sorted(keys):
                found_row = session.execute(select(table).where(key == one)).mappings().first()
                if found_row is not None:
                    rows.append({"table": name, "row": _plain(table, dict(found_row))})
    text = "".join(json.dumps(row, sort_keys=True, ensure_ascii=False) + "\n" for row in rows)
    data = text.encode("utf-8", "surrogatepass")
    longest = max(map(len, data.split(b"\n")))
    if len(rows) > MOST_ROWS or len(data) > LARGEST or longest > LONGEST_LINE:
        raise StoreError(
            f"{run}: expected a run that `kb import` reads, of {MOST_ROWS:,} rows, {LARGEST >> 20} MiB and "
            f"{LONGEST_LINE >> 20} MiB a row at most, found {len(rows):,} rows of {len(data) >> 20:,} MiB, the longest "
            f"{longest >> 20:,} MiB: copy its database"
        )
    try:
        # No time stamp: the file is kept beside others that are compared.
        path.write_bytes(gzip.compress(data, mtime=0))
    except OSError as error:
        raise StoreError(
            f"cannot write {path}: {error.strerror}: name a file in a folder that exists"
        ) from error
    return len(rows) - 1


def read_run(
    storage: Storage,
    path: Path,
    *,
    trusted: bool = False,
    look: Callable[[Storage, str], None] = lambda _storage, _run: None,
) -> str:
    """Take up the run that `write_run` wrote; return its name.

    Its outcomes are its own: no other run takes them for verdicts of this machine.

    Args:
        trusted: its program may be run here as one's own.
        look: shows the run, in a record that is thrown away, as commands will; what it raises says that
            the file is none.

    Raises:
        StoreError: the file is no exported run, or a run of that name is on record.
    """
    rows = read_rows(path)
    head = next(rows, {})
    if head.get("format") != FORMAT:
        found = shortened(repr(head.get("format")))
        raise StoreError(f"{path}: expected a run that `kb export` wrote ({FORMAT}), found {found}")
    create_tables(storage.engine)
    try:
        run = run_name(head)
        if any(one.run == run for one in storage.runs()):
            raise StoreError(f"{path}: run {run} is on record here: set another KB_HOME")
        kept = [_checked(row, run) for row in rows]
        _mark(kept, trusted=trusted)
        _try_out(kept, run, look)
        _store(storage.engine, kept)
    except KbError:
        raise
    except Exception as error:
        raise StoreError(
            f"{path}: expected the rows of one run, found others ({type(error).__name__}: {shortened(error)}): "
            "nothing was read"
        ) from error
    return run


def trust_run(storage: Storage, run: str) -> None:
    """Let the program of an imported run be run here as one's own, from now on."""
    about = {**storage.run(run).about, "imported": False}
    mine = update(RUNS).where(RUNS.c.run == run)
    with writing(storage.engine) as session:
        session.execute(mine.values(about=json.dumps(about, sort_keys=True)))


def _try_out(
    rows: list[tuple[Table, dict[str, Any]]], run: str, look: Callable[[Storage, str], None]
) -> None:
    """Take up a run in a database that is thrown away, and look at it there."""
    with tempfile.TemporaryDirectory(prefix="kb-import-") as folder:
        trial = open_file(Path(folder) / "trial.sqlite")
        try:
            create_tables(trial)
            _store(trial, rows)
            # Its graph can be made, and no node of it lacks its source.
            if len(Record(trial, run).graph.nodes) != sum(table is NODES for table, _ in rows):
                raise ValueError("nodes without sources")
            look(Storage(trial), run)
        finally:
            trial.dispose()


def _checked(row: dict[str, Any], run: str) -> tuple[Table, dict[str, Any]]:
    """Return the table of a row and the values that are stored."""
    table = _TABLES.get(str(row.get("table")))
    if table is None:
        raise ValueError("a row of no table of a run")
    values = row.get("row")
    check_row(table, values, run)
    assert isinstance(values, dict)
    return table, _stored(table, values, run)


def _mark(rows: list[tuple[Table, dict[str, Any]]], *, trusted: bool) -> None:
    """Note of a run that it was imported, and which calls of models were paid for elsewhere: by number, whatever clocks say."""
    calls = sorted(values["number"] for table, values in rows if table is CALLS)
    if calls != list(range(len(calls))):
        raise ValueError("calls of models that are not counted from 0")
    for table, values in rows:
        if table is RUNS:
            about = json.loads(values["about"])
            about |= {"imported": not trusted, "imported_calls": len(calls)}
            values["about"] = json.dumps(about, sort_keys=True)


def _store(engine: Engine, rows: list[tuple[Table, dict[str, Any]]]) -> None:
    with writing(engine) as session:
        for table, values in rows:
            (key, *_) = table.primary_key.columns
            if table.name in _SHARED:
                known = select(table).where(key == values[key.name])
                if session.execute(known).first() is not None:
                    continue  # content decides identity
            session.execute(insert(table).values(**values))


def _referred(rows: list[dict[str, Any]]) -> dict[str, set[str]]:
    """Return the keys of shared rows that a run's rows name, by table."""
    found: dict[str, set[str]] = {name: set() for name in _SHARED}
    for row in rows:
        values = row.get("row", {})
        match row.get("table"):
            case NODES.name:
                found[SOURCES.name].add(values["source"])
                found[OUTCOMES.name] |= {values["outcome"]} - {None}
                found[EXCHANGES.name] |= set(json.loads(values["draft"])["exchanges"])
            case PROPOSALS.name:
                for idea in json.loads(values["ideas"]):
                    found[EXCHANGES.name] |= set(idea["exchanges"])
            case CALLS.name:
                found[EXCHANGES.name] |= {values["key"]} - {""}
    return found


def _plain(table: Table, row: dict[str, Any]) -> dict[str, Any]:
    if table is RUNS:
        row.pop("number")
        row["about"] = _nowhere(row["about"])
        if row["report"]:
            report = json.loads(row["report"])
            (report.get("best") or {}).pop("file", None)
            row["report"] = json.dumps(report)
    for column in table.columns:
        if isinstance(column.type, LargeBinary) and row.get(column.name) is not None:
            row[column.name] = base64.b64encode(row[column.name]).decode()
    return row


def _nowhere(about: str) -> str:
    """Return what was known when a run began without the folders in which things lay."""
    values = json.loads(about)
    for key in ("imported", "imported_calls"):
        values.pop(key, None)
    for key in {"path", "reference"} & set(values):
        values[key] = PurePath(values[key]).name
    settings = values.get("settings", {})
    settings.pop("mailbox", None)
    model = settings.get("model")
    if model and model.get("provider") in ("mailbox", "scripted"):
        model["name"] = PurePath(model["name"]).name
    return json.dumps(values, sort_keys=True)


def _stored(table: Table, row: dict[str, Any], run: str) -> dict[str, Any]:
    values = {**row, **({"run": run} if "run" in table.columns else {})}
    for column in table.columns:
        if isinstance(column.type, LargeBinary) and values.get(column.name) is not None:
            values[column.name] = base64.b64decode(values[column.name])
    if table is NODES and values["outcome"]:
        values["outcome"] = _own(run, values["outcome"])
    if table is OUTCOMES:
        values["key"] = _own(run, values["key"])
    return values


def _own(run: str, key: str) -> str:
    return hashlib.sha256(f"{FORMAT}\0{run}\0{key}".encode()).hexdigest()
