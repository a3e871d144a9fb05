"""The record of suites in SQL: one row a problem, so that a second call goes on where one broke off."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Engine,
    Float,
    String,
    Table,
    Text,
    delete,
    insert,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError

from kb.app.bench.rows import SuiteRow, from_values, to_values
from kb.database import Base, create_tables, reading, writing
from kb.errors import StoreError

SUITES = Table(
    "suites",
    Base.metadata,
    Column("suite", String, primary_key=True),
    Column("about", Text, nullable=False),  # JSON: what was asked of every problem, and where
    Column("started", Float, nullable=False),
)
ROWS = Table(
    "suite_rows",
    Base.metadata,
    Column("suite", String, primary_key=True),
    Column("problem", String, primary_key=True),
    Column("key", String, nullable=False),  # of the problem's content and settings
    Column("run", String),  # that works on it, or did
    Column("row", Text),  # JSON, null until it has ended
    Column("at", Float, nullable=False),
)
AGAIN = Table(
    "suites_again",
    Base.metadata,
    Column("suite", String, primary_key=True),
    Column("problems", String, primary_key=True),  # hash of their names
    Column("began", Float, nullable=False),  # since when all of these are worked on again
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteRecord:
    """A suite on record.

    Attributes:
        about: what was asked of every problem: name, precision, budget, device, judge.
        rows: of the problems that have ended, in the order in which they began.
        open: how many were begun and have not ended.
    """

    suite: str
    about: Mapping[str, Any]
    started: float
    rows: tuple[SuiteRow, ...]
    open: int


class SuiteRecords:
    """Every suite of a home.

    Args:
        engine: from `kb.database.open_engine`; one that cannot write is for reading alone.
    """

    def __init__(self, engine: Engine, *, makes_tables: bool = True) -> None:
        self.engine = engine
        if makes_tables:
            create_tables(engine)

    def begin(self, about: Mapping[str, Any]) -> str:
        """Return the latest suite of which the same was asked, or a new one.

        One from before records had the folder of the problems goes on as that of the first folder it is
        asked for.

        Args:
            about: with the suite's name under ``name``.
        """
        text = json.dumps(about, sort_keys=True)
        before = json.dumps({key: about[key] for key in about if key != "folder"}, sort_keys=True)
        with writing(self.engine) as session:
            known = session.execute(select(SUITES).order_by(SUITES.c.started)).all()
            same = [one.suite for one in known if one.about == text]
            if same:
                return str(same[-1])
            older = [one.suite for one in known if one.about == before]
            if older:
                taken = update(SUITES).where(SUITES.c.suite == older[-1])
                session.execute(taken.values(about=text))
                return str(older[-1])
            names = {one.suite for one in known}
            name = next(
                made
                for number in range(1, len(names) + 2)
                if (made := f"{about['name']}-{number}") not in names
            )
            session.execute(insert(SUITES).values(suite=name, about=text, started=time.time()))
        return name

    def begun(self, suite: str, problem: str, key: str, run: str | None = None) -> None:
        """Note that a problem is worked on, and by which run; what was there of other content goes."""
        values = {"key": key, "run": run, "row": None, "at": time.time()}
        same = (ROWS.c.suite == suite) & (ROWS.c.problem == problem)
        with writing(self.engine) as session:
            if session.execute(update(ROWS).where(same).values(**values)).rowcount == 0:  # type: ignore[attr-defined]
                try:
                    session.execute(insert(ROWS).values(suite=suite, problem=problem, **values))
                except IntegrityError:
                    return  # another process begins the same problem

    def ended(self, suite: str, row: SuiteRow) -> None:
        """Store what became of a problem."""
        same = (ROWS.c.suite == suite) & (ROWS.c.problem == row.problem)
        values = {"key": row.key, "run": row.run, "row": json.dumps(to_values(row)), "at": row.at}
        with writing(self.engine) as session:
            session.execute(delete(ROWS).where(same))
            session.execute(insert(ROWS).values(suite=suite, problem=row.problem, **values))

    def state(self, suite: str, problem: str, key: str) -> tuple[SuiteRow | None, str | None]:
        """Return a problem's row and the run that works on it, None and None where nothing is known.

        Args:
            key: a row of other content is not the problem's.
        """
        same = (ROWS.c.suite == suite) & (ROWS.c.problem == problem) & (ROWS.c.key == key)
        with reading(self.engine) as session:
            found = session.execute(select(ROWS).where(same)).one_or_none()
        if found is None:
            return None, None
        return (from_values(json.loads(found.row)) if found.row else None), found.run

    def again_since(self, suite: str, problems: Iterable[str]) -> float | None:
        """Return when it began that all of these problems are worked on again, None where that has ended."""
        with reading(self.engine) as session:
            return session.scalar(select(AGAIN.c.began).where(*_asked(suite, problems)))

    def begin_again(self, suite: str, problems: Iterable[str]) -> float:
        """Note that all of these problems are worked on again from now on, and return when that is."""
        names, began = list(problems), time.time()
        with writing(self.engine) as session:
            session.execute(delete(AGAIN).where(*_asked(suite, names)))
            session.execute(insert(AGAIN).values(suite=suite, problems=_hash(names), began=began))
        return began

    def end_again(self, suite: str, problems: Iterable[str]) -> None:
        """Note that all of these problems have been worked on again."""
        with writing(self.engine) as session:
            session.execute(delete(AGAIN).where(*_asked(suite, problems)))

    def names(self) -> list[str]:
        """Return the suites, the oldest first."""
        with reading(self.engine) as session:
            return list(session.scalars(select(SUITES.c.suite).order_by(SUITES.c.started)))

    def suite(self, name: str) -> SuiteRecord:
        """Return one suite with its rows.

        Raises:
            StoreError: there is no such suite; the message names the latest.
        """
        with reading(self.engine) as session:
            found = session.execute(select(SUITES).where(SUITES.c.suite == name)).one_or_none()
            rows = session.execute(
                select(ROWS).where(ROWS.c.suite == name).order_by(ROWS.c.at)
            ).all()
        if found is None:
            latest = ", ".join(self.names()[-5:])
            known = f"latest are {latest}" if latest else "there are none yet"
            raise StoreError(f"no suite {name!r}: {known} (kb bench list shows all)")
        return SuiteRecord(
            suite=name,
            about=json.loads(found.about),
            started=found.started,
            rows=tuple(sorted(
                (from_values(json.loads(one.row)) for one in rows if one.row),
                key=lambda row: _natural(row.problem),
            )),
            open=sum(one.row is None for one in rows),
        )  # fmt: skip


def _asked(suite: str, problems: Iterable[str]) -> Sequence[ColumnElement[bool]]:
    return AGAIN.c.suite == suite, AGAIN.c.problems == _hash(problems)


def _hash(problems: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(sorted(problems)).encode()).hexdigest()


def _natural(problem: str) -> tuple[int, str]:
    """Return what problems are ordered by: a number that leads the name, then the name."""
    head = problem.partition("_")[0]
    return (int(head) if head.isdecimal() and len(head) < 9 else 0), problem
