"""Which devices are as fast as they were, and which may be compared with each other.

A place (a host's device) runs known kernels once, and what they took is kept. Places of one kind that
took the same within a tolerance are one group; times and speed-ups of different groups never meet in
one ranking. A place that differs from its own record has drifted: another load, a lower clock,
another power limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import Engine, delete, insert, select, update

from kb.database import create_tables, outlast, writing
from search.judging.known_kernels import Calibration
from search.work.tables import CALIBRATIONS

# Relative, of each of the two times. A processor's memory is shared with whatever else runs; its
# candidates are timed beside their baselines all the same.
TOLERANCE = {"cpu": 0.5, "cuda": 0.1}


class Drifted(Exception):
    """The device is not as fast as it was; the message says what differs."""


class Calibrations:
    """What the places of one database took.

    Args:
        tolerance: relative difference that counts as the same; None: what the kind of device allows.
    """

    def __init__(self, engine: Engine, *, tolerance: float | None = None) -> None:
        self._engine = engine
        self._given = tolerance
        create_tables(engine)

    def group(self, context: str, place: str, found: Calibration, device: str = "cuda") -> int:
        """Return the group of a place; its first measurement is kept.

        A processor that is faster than at first takes the place of that measurement, unless others are compared with it.

        Args:
            context: judge version, device model and torch.
            device: ``cpu`` or ``cuda``.

        Raises:
            Drifted: it is not as fast as the first time.
        """
        tolerance = TOLERANCE[device] if self._given is None else self._given

        def settle() -> int:
            with writing(self._engine) as session:
                rows = session.execute(
                    select(CALIBRATIONS)
                    .where(CALIBRATIONS.c.context == context)
                    .order_by(CALIBRATIONS.c["group"], CALIBRATIONS.c.place)
                ).all()
                known = {row.place: row for row in rows}
                if place in known:
                    differs = found.differs(_of(known[place]), tolerance)
                    group = int(known[place].group)
                    if not differs:
                        return group
                    alone = sum(row.group == group for row in rows) == 1
                    if device != "cpu" or not alone or found.slower(_of(known[place]), tolerance):
                        raise Drifted(differs)
                    # Its first times were taken beside other work: a processor is not faster than it is.
                    here = (CALIBRATIONS.c.context == context) & (CALIBRATIONS.c.place == place)
                    session.execute(update(CALIBRATIONS).where(here).values(**asdict(found)))
                    return group
                group = _same(rows, found, tolerance) or 1 + max(
                    (row.group for row in rows), default=0
                )
                session.execute(
                    insert(CALIBRATIONS).values(
                        context=context, place=place, group=group, **asdict(found)
                    )
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


def _same(rows: Sequence[Any], found: Calibration, tolerance: float) -> int | None:
    """Return the group whose first place took the same."""
    seen: set[int] = set()
    for row in rows:
        if row.group not in seen and not found.differs(_of(row), tolerance):
            return int(row.group)
        seen.add(row.group)
    return None


def _of(row: Any) -> Calibration:
    return Calibration(arithmetic=row.arithmetic, memory=row.memory)
