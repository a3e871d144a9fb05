"""What language models cost a run: every call, the caps, and which model was chosen where."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Any

from sqlalchemy import Column, Engine, String, Table, func, insert, select

from kb.database import Base, DatabaseClock, create_tables, outlast, reading, writing
from search.runs.calls import CALLS
from search.runs.caps import DatabaseCaps, drop, made_here
from search.settings import StopSettings
from synth.models import Reply, Request
from synth.models.budgeted import Exhausted, Hold
from synth.models.prices import Usage

CHOICES = Table(
    "model_choices",
    Base.metadata,
    Column("run", String, primary_key=True),
    Column("place", String, primary_key=True),
    Column("model", String, nullable=False),
)


@dataclass(slots=True)
class _Sum:
    """Totals of a run: of what was paid for."""

    tokens: int = 0
    cost: float = 0.0
    requests: int = 0


class Ledger:
    """The calls of one run, and what they may cost.

    Args:
        caps: on tokens, money and requests; each may be None.

    Attributes:
        shared: the caps of all runs of the database.
    """

    def __init__(self, engine: Engine, caps: StopSettings) -> None:
        self._engine = engine
        self._caps = caps
        self._run = ""
        self._rows: list[dict[str, Any]] = []
        self._keys: set[str] = set()  # of the exchanges
        self._choices: dict[str, str] = {}
        self._paid = _Sum()
        self._reserved = _Sum()
        self._lock = Lock()
        self.shared = DatabaseCaps(engine)

    def open(self, run: str) -> Ledger:
        """Take up the accounts of `run`, those before a resume included."""
        with reading(self._engine) as session:
            query = select(CALLS).where(CALLS.c.run == run).order_by(CALLS.c.number)
            rows = [dict(row._mapping) for row in session.execute(query)]
            places = session.execute(select(CHOICES).where(CHOICES.c.run == run)).all()
        self._run = run
        self._choices = {row.place: row.model for row in places}
        for row in rows:
            self._add(row)
        return self

    def closed(self) -> Ledger:
        """Keep nothing from now on: for a replay, which chooses as the record says."""
        self._run = ""
        return self

    def noted(self, role: str) -> Callable[[Request, Reply, bool], None]:
        """Return what books the exchanges of a role, for `synth.models.recorded.Recorded`."""

        def note(request: Request, reply: Reply, fresh: bool) -> None:
            row = {
                "key": request.key(), "role": role, "model": request.model,
                "tokens_in": reply.tokens_in, "tokens_out": reply.tokens_out,
                "cached": reply.cached, "cost": reply.cost, "seconds": reply.seconds,
                "paid": fresh,
            }  # fmt: skip
            self._book(row)

        return note

    def reserve(self, hold: Hold) -> None:
        """Put aside what a request may take at most.

        Raises:
            Exhausted: a cap of the run, or of its database, has no room for it.
        """
        with self._lock:
            wanted = (
                ("tokens", self._caps.tokens, self._paid.tokens + self._reserved.tokens, hold.tokens),
                ("money", self._caps.money, self._paid.cost + self._reserved.cost, hold.cost),
                ("requests", self._caps.requests,
                 self._paid.requests + self._reserved.requests, 1),
            )  # fmt: skip
            for name, cap, gone, more in wanted:
                if cap is not None and gone + more > cap:
                    raise Exhausted(_reason(name, cap, gone, more))
            if self._run:
                self.shared.reserve(self._run, hold)
            self._reserved.tokens += hold.tokens
            self._reserved.cost += hold.cost
            self._reserved.requests += 1

    def release(self, hold: Hold, *, answered: bool) -> None:
        """Give back what was put aside; of an answered request the database keeps it until that is booked."""
        with self._lock:
            self._reserved.tokens -= hold.tokens
            self._reserved.cost -= hold.cost
            self._reserved.requests -= 1
        if self._run and not answered:
            self.shared.release(self._run, hold)

    def lose(self, model: str, usage: Usage, cost: float | None) -> None:
        """Book tokens of answers that never came to an end."""
        row = {
            "key": "", "role": "broken off", "model": model, "tokens_in": usage.tokens_in,
            "tokens_out": usage.tokens_out, "cached": 0, "cost": cost, "seconds": 0.0,
            "paid": True,
        }  # fmt: skip
        self._book(row)

    def chosen(self, place: str) -> str | None:
        """Return the model that was chosen for a place of the search."""
        return self._choices.get(place)

    def choose(self, place: str, model: str) -> None:
        """Keep what was chosen."""
        self._choices[place] = model
        if self._run:
            with writing(self._engine) as session:
                row = {"run": self._run, "place": place, "model": model}
                session.execute(insert(CHOICES).values(**row))

    def _book(self, row: dict[str, Any]) -> None:
        with self._lock:
            if row["key"] and row["key"] in self._keys and not row["paid"]:
                return  # asked again after a resume: booked already
            row = {**row, "run": self._run, "number": len(self._rows)}
            self._add(row)
            if self._run:
                outlast(self._engine, lambda: self._keep(row))

    def _keep(self, row: dict[str, Any]) -> None:
        """Write a call down, unless an attempt whose end is not known did so."""
        mine = (CALLS.c.run == row["run"]) & (CALLS.c.number == row["number"])
        with writing(self._engine) as session:
            if session.execute(select(CALLS.c.number).where(mine)).first() is None:
                # The clock by which a day of a cap begins.
                session.execute(insert(CALLS).values(**row, at=DatabaseClock()))
            if row["key"]:
                drop(session, row["run"], row["key"])

    def _add(self, row: dict[str, Any]) -> None:
        self._rows.append(row)
        if row["key"]:
            self._keys.add(row["key"])
        if row["paid"]:
            self._paid.tokens += row["tokens_in"] + row["tokens_out"]
            self._paid.cost += row["cost"] or 0.0
            self._paid.requests += 1


def spending(engine: Engine, run: str | None = None) -> list[dict[str, Any]]:
    """Return what each model cost in each role: calls, tokens, cost, seconds.

    Args:
        run: None for all runs that were made here: imported ones were paid for elsewhere.
    """
    create_tables(engine)
    columns = (
        CALLS.c.model,
        CALLS.c.role,
        CALLS.c.paid,
        func.count().label("calls"),
        func.sum(CALLS.c.tokens_in).label("tokens_in"),
        func.sum(CALLS.c.tokens_out).label("tokens_out"),
        func.sum(CALLS.c.cached).label("cached"),
        func.sum(CALLS.c.cost).label("cost"),
        func.sum(CALLS.c.seconds).label("seconds"),
        (func.count() - func.count(CALLS.c.cost)).label("without_price"),
    )
    names = (CALLS.c.model, CALLS.c.role, CALLS.c.paid)
    query = select(*columns).group_by(*names).order_by(*names)
    with reading(engine) as session:
        query = query.where(made_here(session) if run is None else CALLS.c.run == run)
        rows = [dict(row._mapping) for row in session.execute(query)]
    for row in rows:
        if row["without_price"]:
            row["cost"] = None  # a part of a sum says nothing
    return rows


def _reason(name: str, cap: float, gone: float, more: float) -> str:
    digits = ".4g" if name == "money" else ",.0f"
    return (
        f"stop.{name} {cap:{digits}}: {gone:{digits}} spent, and the next request may take "
        f"{more:{digits}}"
    )
