"""Caps on what all runs of one database may spend on models together, in a day or in all.

What a request may take at most is put aside in the database before it is sent, in one transaction with
the look at what is left: of two runs on two machines that want the last of it, one gets it. The booking
of the call takes its place, in one transaction too. What a killed run had put aside stays counted, since
nobody knows whether it was charged, until the run is resumed and asks again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from sqlalchemy import (
    Column,
    ColumnElement,
    Engine,
    Float,
    Integer,
    String,
    Table,
    delete,
    false,
    func,
    insert,
    not_,
    or_,
    select,
    true,
)
from sqlalchemy.orm import Session

from kb.database import Base, DatabaseClock, create_tables, outlast, reading, writing
from kb.errors import ConfigError
from search.runs.calls import CALLS
from search.runs.tables import RUNS
from synth.models.budgeted import Exhausted, Hold

CapUnit = Literal["money", "tokens", "requests"]
Period = Literal["day", "all"]
_DAY = 86400  # seconds; a day begins at midnight UTC, by the clock of the database
_FORM = re.compile(r"\s*(?:(?P<amount>[\d_,]*\.?\d+)\s+)?(?P<unit>[a-z]+)(?P<day>\s+a\s+day)?\s*")
CAPS = Table(
    "spending_caps",
    Base.metadata,
    Column("unit", String, primary_key=True),  # `CapUnit`
    Column("period", String, primary_key=True),  # `Period`
    Column("amount", Float, nullable=False),
)
HELD = Table(
    "spending_held",
    Base.metadata,
    Column("run", String, primary_key=True),
    Column("key", String, primary_key=True),  # of the request that may be under way
    Column("tokens", Integer, nullable=False),
    Column("cost", Float, nullable=False),
    Column("at", Float, nullable=False),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseCap:
    """So much of one thing, over all runs of a database."""

    unit: CapUnit
    period: Period
    amount: float

    def __str__(self) -> str:
        day = " a day" if self.period == "day" else ""
        return f"{figure(self.unit, self.amount)} {self.unit}{day}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CapState:
    """Where a cap stands.

    Attributes:
        spent: what was paid for, since midnight UTC where the cap is one of a day.
        held: what requests under way may take at most, and those of killed runs.
    """

    cap: DatabaseCap
    spent: float
    held: float


def parse_cap(text: str) -> tuple[CapUnit, Period, float | None]:
    """Return unit, period and amount of a text: ``5 money a day``, ``1000000 tokens``, ``tokens a day``.

    Raises:
        ConfigError: it says no cap.
    """
    found = _FORM.fullmatch(text.lower())
    unit = next((one for one in get_args(CapUnit) if found and found["unit"] == one), None)
    if found is None or unit is None:
        raise ConfigError(
            f"expected a cap on {', '.join(get_args(CapUnit)[:-1])} or {get_args(CapUnit)[-1]}, found {text!r}: "
            "write for example --cap '5 money a day' or --cap '1000000 tokens'"
        )
    given = found["amount"]
    amount = None if given is None else float(re.sub("[_,]", "", given))
    return unit, "day" if found["day"] else "all", amount


class DatabaseCaps:
    """The caps of one database, and what is put aside under them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        create_tables(engine)

    def caps(self) -> list[DatabaseCap]:
        """Return every cap."""

        def read() -> list[DatabaseCap]:
            with reading(self._engine) as session:
                return _caps(session)

        return outlast(self._engine, read)

    def put(self, cap: DatabaseCap) -> None:
        """Set a cap; runs that are under way keep to it from their next request on."""
        self._replace(cap.unit, cap.period, cap)

    def remove(self, unit: CapUnit, period: Period) -> None:
        """Take a cap away, if it is there."""
        self._replace(unit, period, None)

    def states(self) -> list[CapState]:
        """Return where each cap stands."""
        with reading(self._engine) as session:
            found = []
            for cap in _caps(session):
                since = _since(session, cap.period)
                spent, held = _spent(session, cap.unit, since), _held(session, cap.unit, since)
                found.append(CapState(cap=cap, spent=spent, held=held))
            return found

    def reserve(self, run: str, hold: Hold) -> None:
        """Put aside what a request may take at most.

        Raises:
            Exhausted: a cap has no room for it.
        """

        def write() -> None:
            with writing(self._engine) as session:
                session.execute(delete(HELD).where(*_mine(run, hold.key)))
                for cap in _caps(session):
                    since = _since(session, cap.period)
                    gone = _spent(session, cap.unit, since) + _held(session, cap.unit, since)
                    more = {"money": hold.cost, "tokens": hold.tokens, "requests": 1}[cap.unit]
                    if gone + more > cap.amount:
                        raise Exhausted(_reason(cap, gone, more))
                row = {"run": run, "key": hold.key, "tokens": hold.tokens, "cost": hold.cost}
                session.execute(insert(HELD).values(**row, at=DatabaseClock()))

        if self.caps():
            outlast(self._engine, write)

    def release(self, run: str, hold: Hold) -> None:
        """Give back what was put aside for a request that brought no answer."""

        def write() -> None:
            with writing(self._engine) as session:
                drop(session, run, hold.key)

        if self.caps():
            outlast(self._engine, write)

    def _replace(self, unit: CapUnit, period: Period, cap: DatabaseCap | None) -> None:
        with writing(self._engine) as session:
            session.execute(delete(CAPS).where(CAPS.c.unit == unit, CAPS.c.period == period))
            if cap is not None:
                values = {"unit": unit, "period": period, "amount": cap.amount}
                session.execute(insert(CAPS).values(**values))


def drop(session: Session, run: str, key: str) -> None:
    """Take away what is put aside for a request: its booking is in the same transaction."""
    session.execute(delete(HELD).where(*_mine(run, key)))


def _mine(run: str, key: str) -> Sequence[ColumnElement[bool]]:
    return HELD.c.run == run, HELD.c.key == key


def _caps(session: Session) -> list[DatabaseCap]:
    rows = session.execute(select(CAPS).order_by(CAPS.c.unit, CAPS.c.period)).all()
    return [DatabaseCap(unit=row.unit, period=row.period, amount=row.amount) for row in rows]


def _since(session: Session, period: Period) -> float:
    now = session.scalar(select(DatabaseClock())) or 0.0
    return now - now % _DAY if period == "day" else 0.0


def _spent(session: Session, unit: CapUnit, since: float) -> float:
    sums: dict[CapUnit, Any] = {
        "money": func.sum(CALLS.c.cost),
        "tokens": func.sum(CALLS.c.tokens_in + CALLS.c.tokens_out),
        "requests": func.count(),
    }
    paid = select(sums[unit]).where(CALLS.c.paid.is_(True), CALLS.c.at >= since, made_here(session))
    return float(session.scalar(paid) or 0)


def made_here(session: Session) -> ColumnElement[bool]:
    """Return what calls of imported runs do not fulfil, but for those made since: they were paid for elsewhere."""
    query = select(RUNS.c.run, RUNS.c.about).where(RUNS.c.about.contains('"imported"'))
    paid_elsewhere: list[ColumnElement[bool]] = []
    for run, text in session.execute(query):
        about = json.loads(text)
        if "imported" in about:
            brought = about.get("imported_calls")
            before = true() if brought is None else CALLS.c.number < brought
            paid_elsewhere.append((CALLS.c.run == run) & before)
    return not_(or_(false(), *paid_elsewhere))


def _held(session: Session, unit: CapUnit, since: float) -> float:
    sums: dict[CapUnit, Any] = {
        "money": func.sum(HELD.c.cost),
        "tokens": func.sum(HELD.c.tokens),
        "requests": func.count(),
    }
    return float(session.scalar(select(sums[unit]).where(HELD.c.at >= since)) or 0)


def figure(unit: CapUnit, amount: float) -> str:
    """Return an amount as people read it: tokens and requests in full."""
    return f"{amount:.4g}" if unit == "money" else f"{amount:,.0f}"


def _reason(cap: DatabaseCap, gone: float, more: float) -> str:
    return (
        f"the database's cap of {cap}: {figure(cap.unit, gone)} spent or put aside by all its runs, and the "
        f"next request may take {figure(cap.unit, more)}"
    )
