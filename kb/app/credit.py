"""What happens after a search, whole or broken off: what passages gained is recorded."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kb.app.diagnosis import diagnoser

if TYPE_CHECKING:
    from kb.app.session import Session
    from search.outcome import Outcome
    from search.runs.storage import Record


def credit(
    session: Session,
    record: Record,
    baselines: Mapping[str, float],
    confirmed: Mapping[int, Outcome],
) -> None:
    """Record what the passages that a run used have gained so far."""
    from search.lessons.credit import Origin, keep_credits

    diagnose = diagnoser(session, baselines)
    origin = Origin(
        run=record.run,
        identity=session.task.identity,
        target=session.target.name,
        architecture=session.target.architecture,
        families=frozenset(session.work.families),
        bottleneck=lambda attempt: next(iter(diagnose(attempt).symptoms), ""),
        at=time.time(),
    )
    keep_credits(session.storage.engine, record.graph, confirmed, origin)
