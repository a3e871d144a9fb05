"""Work under leases: done at least once, recorded exactly once.

Every decision is one transaction, and every time is the database's. A lease carries a token that grows
with each claim, so a worker that was thought dead and comes back can record nothing. A transaction whose
end is not known, because the connection broke, may be done again: it comes to the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sqlalchemy import Engine, Select, and_, exists, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from kb.database import DatabaseClock, claiming, create_tables, outlast, reading
from search.judging.spool.job import Failure, Job, JobAnswer, read_job
from search.runs.tables import SOURCES
from search.work.rows import (
    OF_ANOTHER_VERSION,
    WorkState,
    candidate_of,
    insert_work,
    job_of,
    what_of,
    work_state,
)
from search.work.tables import BENCHES, RESULTS, TARGETS, WORK

T = TypeVar("T")
LEASE = 60.0  # seconds without a sign of life after which work is another worker's
PATIENCE = 30.0
MOST_DEATHS = 3  # judges that a piece of work may take with it
MOST_EXPIRIES = 5  # leases that may run out on it
_EXPIRED_AT_ONCE = 32
UNREADABLE = "expected work of the worker's version of kb, found that of another: install the same version on both sides"
_NOW = DatabaseClock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A piece of work that one worker has.

    Attributes:
        token: which claim of the work this is: only the latest one can be acted on.
    """

    number: int
    token: int
    worker: str
    job: Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimant:
    """A worker, and what it may take.

    Attributes:
        name: its own, never given twice.
        context: what an outcome of its depends on besides source and task.
        targets: hashes of the targets that its device is one of.
        warm: the bench of the judge that it holds; empty where it holds none.
        yields: what waits for others has its turn before what its own judge can do.
        idle: it has found nothing for as long as work is to wait for a warm judge.
    """

    name: str
    context: str
    targets: Sequence[str]
    warm: str = ""
    yields: bool = False
    idle: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkTally:
    """How much work is in each state, and how many results are on record."""

    states: Mapping[str, int] = field(default_factory=dict)
    results: int = 0


class WorkQueue:
    """The work of one database.

    Args:
        lease: seconds that a worker may be silent.
        patience: seconds that work waits for a worker that holds its judge, before one that would
            have to put away another does it (delay scheduling, Zaharia et al., EuroSys 2010).
    """

    def __init__(self, engine: Engine, *, lease: float = LEASE, patience: float = PATIENCE) -> None:
        self.engine = engine
        self.lease = lease
        self.patience = patience
        create_tables(engine)

    def put(self, job: Job) -> None:
        """Have `job` done, unless it is there already; one that failed is tried again."""

        def write(session: Session) -> None:
            found = session.execute(
                select(WORK.c.number, WORK.c.state).where(WORK.c.name == job.name)
            ).one_or_none()
            if found is None:
                insert_work(session, job)
            elif found.state == "failed":
                same = and_(WORK.c.number == found.number, WORK.c.state == "failed")
                session.execute(update(WORK).where(same).values(**_AFRESH))

        def once() -> None:
            try:
                with claiming(self.engine) as session:
                    write(session)
            except IntegrityError:
                return once()  # another driver put a part of it there first

        outlast(self.engine, once)

    def look(self, names: Sequence[str]) -> dict[str, WorkState]:
        """Return where pieces of work stand, by name; without those that are not there."""
        joined = and_(
            RESULTS.c.candidate == WORK.c.candidate,
            RESULTS.c.bench == WORK.c.bench,
            RESULTS.c.context == WORK.c.answered,
            RESULTS.c.what == WORK.c.what,
        )
        query = (
            select(WORK.c.name, WORK.c.state, WORK.c.kind, WORK.c.reason, RESULTS.c.answer)
            .outerjoin(RESULTS, joined)
            .where(WORK.c.name.in_(names))
        )

        def read() -> dict[str, WorkState]:
            with reading(self.engine) as session:
                return {row.name: work_state(row) for row in session.execute(query)}

        return outlast(self.engine, read)

    def targets(self, without: Sequence[str]) -> dict[str, Job | None]:
        """Return a job for each target that work is for, by the target's hash, but those in `without`.

        None stands for a job that another version of kb wrote.
        """
        query = select(TARGETS.c.target, TARGETS.c.body).where(TARGETS.c.target.not_in(without))

        def read() -> dict[str, Job | None]:
            with reading(self.engine) as session:
                rows = session.execute(query).all()
            return {row.target: _readable(row.body) for row in rows}

        return outlast(self.engine, read)

    def claim(self, who: Claimant) -> Lease | None:
        """Return work for a worker under a lease, None where there is none for it.

        Work of other leases that ran out waits again, or fails where too many did.
        """

        def write(session: Session) -> Lease | None:
            self._expire(session)
            while (number := self._next(session, who)) is not None:
                lease = self._lease(session, number, who)
                if lease is not None:
                    return lease
            return None

        return self._write(write)

    def _next(self, session: Session, who: Claimant) -> int | None:
        # A claim whose answer was lost with the connection is this worker's: it has one at a time.
        mine = select(WORK.c.number).where(WORK.c.worker == who.name, WORK.c.state == "leased")
        queries = [mine.with_for_update(), *_in_order(who, self.patience)]
        found = (session.scalar(query.limit(1)) for query in queries)
        return next((number for number in found if number is not None), None)

    def renew(self, lease: Lease) -> bool:
        """Give a lease its full time again; False where it is another worker's by now."""
        values = {"until": _NOW + self.lease}
        return self._write(lambda session: _change(session, lease, values))

    def finish(self, lease: Lease, answer: JobAnswer) -> bool:
        """Record the answer and end the lease; False, and nothing recorded, where the lease is gone."""
        if answer.failure is not None:
            return self.fail(lease, answer.failure)
        text = json.dumps(answer.body())
        values = {**_FREE, "state": "done", "answered": answer.context}

        def write(session: Session) -> bool:
            if not _change(session, lease, values):
                return _is_done(session, lease)
            key = {
                "candidate": candidate_of(lease.job),
                "bench": lease.job.bench,
                "context": answer.context,
                "what": what_of(lease.job),
            }
            there = [RESULTS.c[name] == value for name, value in key.items()]
            if session.execute(select(RESULTS.c.what).where(*there)).first() is None:
                row = {"answer": text, "worker": lease.worker, "token": lease.token}
                session.execute(insert(RESULTS).values(**key, **row, recorded=_NOW))
            return True

        try:
            return self._write(write)
        except IntegrityError:  # the same was recorded under another name at this moment
            return self._write(write)

    def fail(self, lease: Lease, failure: Failure) -> bool:
        """End the lease and the work: no worker can do it. False where the lease is gone."""
        values = {
            **_FREE, "state": "failed", "kind": failure.kind, "reason": _printable(failure.reason)
        }  # fmt: skip
        return self._write(lambda session: _change(session, lease, values))

    def give_back(self, lease: Lease, *, died: str = "") -> bool:
        """End the lease, and have another worker do the work; False where it is gone.

        Args:
            died: how the judge ended that was at it; work that ends too many judges fails.
        """

        def write(session: Session) -> bool:
            deaths = session.scalar(select(WORK.c.deaths).where(*_held(lease)))
            values: dict[str, Any] = {**_FREE, "state": "waiting"}
            if died and deaths is not None:
                values["deaths"] = deaths + 1
                if deaths + 1 >= MOST_DEATHS:
                    reason = f"{deaths + 1} judges ended while they judged it: {_printable(died)}"
                    values |= {"state": "failed", "kind": "Died", "reason": reason}
            return _change(session, lease, values)

        return self._write(write)

    def tally(self) -> WorkTally:
        """Return how much work there is."""

        def read() -> WorkTally:
            with reading(self.engine) as session:
                states = session.execute(select(WORK.c.state, func.count()).group_by(WORK.c.state))
                return WorkTally(
                    states={row[0]: row[1] for row in states},
                    results=session.scalar(select(func.count()).select_from(RESULTS)) or 0,
                )

        return outlast(self.engine, read)

    def _write(self, write: Callable[[Session], T]) -> T:
        def once() -> T:
            with claiming(self.engine) as session:
                return write(session)

        return outlast(self.engine, once)

    def _lease(self, session: Session, number: int, who: Claimant) -> Lease | None:
        """Lease a piece of work; one that another version of kb wrote fails, and is nobody's."""
        changed = (
            update(WORK)
            .where(WORK.c.number == number)
            .values(
                state="leased",
                worker=who.name,
                token=WORK.c.token + 1,
                until=_NOW + self.lease,
            )
        )
        session.execute(changed)
        row = session.execute(
            select(WORK, BENCHES.c.body, SOURCES.c.text)
            .join(BENCHES, BENCHES.c.bench == WORK.c.bench)
            .outerjoin(SOURCES, SOURCES.c.hash == WORK.c.candidate)
            .where(WORK.c.number == number)
        ).one()
        try:
            return Lease(number=number, token=row.token, worker=who.name, job=job_of(row))
        except OF_ANOTHER_VERSION:
            values = {**_FREE, "state": "failed", "kind": "ToolchainError", "reason": UNREADABLE}
            session.execute(update(WORK).where(WORK.c.number == number).values(**values))
            return None

    def _expire(self, session: Session) -> None:
        """Take work from workers whose leases ran out; what others are taking at this moment is left."""
        stale = (
            select(WORK.c.number, WORK.c.expiries)
            .where(WORK.c.state == "leased", WORK.c.until < _NOW)
            .order_by(WORK.c.number)
            .limit(_EXPIRED_AT_ONCE)
            .with_for_update(skip_locked=True)
        )
        for row in session.execute(stale).all():
            values: dict[str, Any] = {**_FREE, "state": "waiting", "expiries": row.expiries + 1}
            if row.expiries + 1 >= MOST_EXPIRIES:
                reason = f"{row.expiries + 1} workers fell silent while they had it"
                values |= {"state": "failed", "kind": "Died", "reason": reason}
            session.execute(update(WORK).where(WORK.c.number == row.number).values(**values))


def _readable(body: str) -> Job | None:
    try:
        return read_job(json.loads(body))
    except OF_ANOTHER_VERSION:
        return None


_FREE: dict[str, Any] = {"worker": None, "until": None}
_AFRESH = {"state": "waiting", "deaths": 0, "expiries": 0, "kind": None, "reason": None}


def _in_order(who: Claimant, patience: float) -> list[Select[tuple[int]]]:
    """Return what a worker looks for, first to last; each the oldest first.

    Preparations, which whole searches wait for, are anybody's at once, and so is the first work for a judge
    that nobody has made: a second judge's. A worker that would have to put away its judge leaves what is
    new, and, unless it idles, what another worker is serving just now: the pieces of one step are equally
    old, and each of them would make another judge.
    """
    waiting = select(WORK.c.number).where(WORK.c.state == "waiting").order_by(WORK.c.number)
    mine = waiting.where(WORK.c.bench == who.warm, WORK.c.target.in_(who.targets))
    warm = [mine.where(WORK.c.context == one) for one in (who.context, "")] if who.warm else []
    # One target at a time is one walk along an index, however much work waits.
    new, ours = (
        [waiting.where(WORK.c.target == target, WORK.c.context == one) for target in who.targets]
        for one in ("", who.context)
    )
    if who.warm and patience:
        other = WORK.alias()
        same = other.c.bench == WORK.c.bench
        made = exists().where(same, other.c.state.in_(("leased", "done")))
        ours = [query.where(or_(WORK.c.put <= _NOW - patience, ~made)) for query in ours]
        if not who.idle:
            served = exists().where(same, other.c.state == "leased")
            ours = [query.where(~served) for query in ours]
    queries = [*new, *ours, *warm] if who.yields else [*warm, *new, *ours]
    return [query.with_for_update(skip_locked=True, of=WORK) for query in queries]


def _held(lease: Lease) -> tuple[Any, ...]:
    return (
        WORK.c.number == lease.number,
        WORK.c.token == lease.token,
        WORK.c.worker == lease.worker,
        WORK.c.state == "leased",
    )


def _change(session: Session, lease: Lease, values: Mapping[str, Any]) -> bool:
    """Change the work where the lease still holds."""
    done = session.execute(
        update(WORK).where(*_held(lease)).values(**values).returning(WORK.c.number)
    )
    return done.first() is not None


def _is_done(session: Session, lease: Lease) -> bool:
    """Say whether this very lease has recorded its answer: only the word of it was lost."""
    query = select(RESULTS.c.what).where(
        RESULTS.c.candidate == candidate_of(lease.job),
        RESULTS.c.bench == lease.job.bench,
        RESULTS.c.what == what_of(lease.job),
        RESULTS.c.worker == lease.worker,
        RESULTS.c.token == lease.token,
    )
    return session.execute(query).first() is not None


def _printable(text: str) -> str:
    return text.replace("\0", "\\0")  # PostgreSQL keeps no such character
