"""Which workers there are: for the drivers that wait for them, and for people."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from kb.database import DatabaseClock, claiming, create_tables, outlast, reading
from search.work.tables import WORKERS

_FORGOTTEN = 86_400.0  # seconds of silence after which nobody asks what became of a worker


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveWorker:
    """A worker that gave a sign of life lately.

    Attributes:
        context: what its outcomes depend on besides source and task.
        doing: the name of a job, why it does nothing, or empty.
    """

    name: str
    context: str
    facts: Mapping[str, Any]
    doing: str


class Roster:
    """The workers of one database.

    Args:
        silence: seconds after which a worker counts as gone.
    """

    def __init__(self, engine: Engine, *, silence: float) -> None:
        self._engine = engine
        self._silence = silence
        create_tables(engine)

    def beat(self, name: str, context: str, facts: Mapping[str, Any], doing: str) -> None:
        """Note that a worker is there; a new one has those forgotten that were killed long ago."""
        values = {
            "context": context,
            "facts": json.dumps(dict(facts), sort_keys=True),
            "doing": doing,
            "seen": DatabaseClock(),
        }

        def write() -> None:
            with claiming(self._engine) as session:
                mine = WORKERS.c.worker == name
                changed = update(WORKERS).where(mine).values(**values).returning(WORKERS.c.worker)
                if session.execute(changed).first() is None:
                    gone = WORKERS.c.seen < DatabaseClock() - max(_FORGOTTEN, self._silence)
                    session.execute(delete(WORKERS).where(gone))
                    session.execute(insert(WORKERS).values(worker=name, **values))

        try:
            outlast(self._engine, write)
        except IntegrityError:  # an earlier attempt of its own got through after all
            outlast(self._engine, write)

    def leave(self, name: str) -> None:
        """Note that a worker ended."""

        def write() -> None:
            with claiming(self._engine) as session:
                session.execute(delete(WORKERS).where(WORKERS.c.worker == name))

        outlast(self._engine, write)

    def alive(self) -> list[LiveWorker]:
        """Return the workers that are there, by name."""
        query = (
            select(WORKERS)
            .where(WORKERS.c.seen > DatabaseClock() - self._silence)
            .order_by(WORKERS.c.worker)
        )

        def read() -> list[LiveWorker]:
            with reading(self._engine) as session:
                rows = session.execute(query).all()
            return [
                LiveWorker(
                    name=row.worker,
                    context=row.context,
                    facts=json.loads(row.facts),
                    doing=row.doing,
                )
                for row in rows
            ]

        return outlast(self._engine, read)
