"""Which outcome of a source counts: what fooled the first judge of one run is no candidate of the next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import Engine, bindparam, select

from kb.database import reading
from search.graph import hash_source
from search.outcome import STANDING, Outcome, Passed, Refused, from_json
from search.runs.report import FIGURES, reported
from search.runs.storage import Storage, outcome_key
from search.runs.tables import NODES, OUTCOMES

# Built once: it is asked for every candidate.
_OUTCOME = select(OUTCOMES.c.outcome).where(OUTCOMES.c.key == bindparam("name"))


def second_key(key: str) -> str:
    """Return the name of what a second judge said of the source whose outcome has the name `key`."""
    return outcome_key(key, "second look")


def counting_key(engine: Engine, source: str, context: str) -> str:
    """Return the name of the outcome that a source has: the second judge's where that refused it.

    Args:
        context: what an outcome depends on besides the source: task, target, judge.
    """
    key = outcome_key(source, context)
    second = second_outcome(engine, key)
    return key if second is None or second.kind in STANDING else second_key(key)


def second_outcome(engine: Engine, key: str) -> Outcome | None:
    """Return what a second judge said of the source whose outcome has the name `key`."""
    with reading(engine) as session:
        text = session.connection().scalar(_OUTCOME, {"name": second_key(key)})
    return None if text is None else from_json(text)


def keep_second(storage: Storage, run: str, seen: Mapping[int, Outcome]) -> None:
    """Store what a second judge said of nodes, whoever judged them first: another version, another machine."""
    query = select(NODES.c.number, NODES.c.outcome).where(NODES.c.run == run)
    with reading(storage.engine) as session:
        keys = {row.number: row.outcome for row in session.execute(query)}
    for number, outcome in seen.items():
        storage.keep_outcome(second_key(keys[number]), outcome)


def outcomes_again(engine: Engine, run: str, report: Mapping[str, Any]) -> dict[int, Outcome]:
    """Return, by node, what a second judge said as a run's report tells it.

    All of it is told where it is on record. Else, as in a run that was carried here, a winner has the second
    figures, and the first judge's single calls and kernels.
    """
    told = reported(report)
    query = (
        select(NODES.c.number, NODES.c.outcome.label("key"), OUTCOMES.c.outcome)
        .join(OUTCOMES, OUTCOMES.c.key == NODES.c.outcome)
        .where(NODES.c.run == run, NODES.c.number.in_(told))
    )
    with reading(engine) as session:
        rows = session.execute(query).all()
    found: dict[int, Outcome] = {}
    for row in rows:
        again, whole = told[row.number], second_outcome(engine, row.key)
        found[row.number] = again
        if whole is not None and _same(whole, again):
            found[row.number] = whole
        elif isinstance(again, Passed) and isinstance(first := from_json(row.outcome), Passed):
            figures = {name: getattr(again, name) for name in (*FIGURES, "speedup")}
            found[row.number] = replace(first, **figures)
    return found


def _same(whole: Outcome, told: Outcome) -> bool:
    """Say whether a report tells of this outcome: another run may have had the same source judged again since."""
    if isinstance(whole, Passed) and isinstance(told, Passed):
        return whole.seconds == told.seconds
    return isinstance(whole, Refused) and isinstance(told, Refused) and whole.reason == told.reason


def twins(engine: Engine, sources: Iterable[str]) -> list[tuple[str, int]]:
    """Return the run and the number of every node whose source is one of `sources`."""
    hashes = {hash_source(source) for source in sources}
    if not hashes:
        return []
    query = select(NODES.c.run, NODES.c.number).where(NODES.c.source.in_(hashes))
    with reading(engine) as session:
        return [(row.run, row.number) for row in session.execute(query)]
