"""Which outcome of a source counts: what fooled the first judge of one run is no candidate of the next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlalchemy import Engine, bindparam, select

from kb.database import reading
from search.graph import hash_source
from search.outcome import STANDING, Outcome, from_json
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


def twins(engine: Engine, sources: Iterable[str]) -> list[tuple[str, int]]:
    """Return the run and the number of every node whose source is one of `sources`."""
    hashes = {hash_source(source) for source in sources}
    if not hashes:
        return []
    query = select(NODES.c.run, NODES.c.number).where(NODES.c.source.in_(hashes))
    with reading(engine) as session:
        return [(row.run, row.number) for row in session.execute(query)]
