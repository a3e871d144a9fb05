"""Which devices are as fast as they were, and which may be compared with each other.

A place (a host's device) runs known kernels once, and what they took is kept. Places of one kind that
took the same within a tolerance are one group; times and speed-ups of different groups never meet in
one ranking. A place that differs from its own record has drifted: another load, a lower clock,
another power limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Engine, delete, insert, select

from kb.database import create_tables, outlast, writing
from search.judging.known_kernels import Calibration
from search.work.tables import CALIBRATIONS

TOLERANCE = 0.1  # relative, of each of the two times


class Drifted(Exception):
    """The device is not as fast as it was; the message says what differs."""


class Calibrations:
    """What the places of one database took.

    Args:
        tolerance: relative difference that counts as the same.
    """

    def __init__(self, engine: Engine, *, tolerance: float = TOLERANCE) -> None:
        self._engine = engine
        self._tolerance = tolerance
        create_tables(engine)

    def group(self, context: str, place: str, found: Calibration) -> int:
        """Return the group of a place; the first measurement of a place is kept.

        Args:
            context: judge version, device model and torch.

        Raises:
            Drifted: it took something else the first time.
        """

        def settle() -> int:
            with writing(self._engine) as session:
                rows = session.execute(
                    select(CALIBRATIONS)
                    .where(CALIBRATIONS.c.context == context)
                    .order_by(CALIBRATIONS.c["group"], CALIBRATIONS.c.place)
                ).all()
                known = {row.place: row for row in rows}
                if place in known:
                    differs = found.differs(_of(known[place]), self._tolerance)
                    if differs:
                        raise Drifted(differs)
                    return int(known[place].group)
                group = self._same(rows, found) or 1 + max((row.group for row in rows), default=0)
                values = {"arithmetic": found.arithmetic, "memory": found.memory}
                session.execute(
                    insert(CALIBRATIONS).values(context=context, place=place, group=group, **values)
                )
                return group

        return outlast(self._engine, settle)

    def forget(self, context: str, place: str) -> None:
        """Have a place measured anew: it becomes a new group unless it is as fast as another place."""
        mine = (CALIBRATIONS.c.context == context) & (CALIBRATIONS.c.place == place)

        def remove() -> None:
            with writing(self._engine) as session:
                session.execute(delete(CALIBRATIONS).where(mine))

        outlast(self._engine, remove)

    def _same(self, rows: Sequence[Any], found: Calibration) -> int | None:
        """Return the group whose first place took the same."""
        seen: set[int] = set()
        for row in rows:
            if row.group not in seen and not found.differs(_of(row), self._tolerance):
                return int(row.group)
            seen.add(row.group)
        return None


def _of(row: Any) -> Calibration:
    return Calibration(arithmetic=row.arithmetic, memory=row.memory)
