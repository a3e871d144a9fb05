"""How fast work goes through leases, on a real PostgreSQL: the figures of docs/workers.md.

    python -m benchmarks.work.rate            # both tables, some four minutes
    python -m benchmarks.work.rate --waiting  # claims with 1,000 to 100,000 pieces of work waiting

The first table is of worker processes whose judging costs nothing (what the protocol costs), and of ones
whose judging sleeps (whether workers hinder each other). Workers start before the work is put there; a
rate is from the first to the last record, by the database's clock.
"""

from __future__ import annotations

import statistics
import sys
import time
from contextlib import ExitStack
from itertools import count
from pathlib import Path

from sqlalchemy import Engine, create_engine, func, insert, select, text

from kb.database import claiming, open_url, reading
from search.work.queue import Claimant, WorkQueue
from search.work.roster import Roster
from search.work.rows import target_hash
from search.work.tables import RESULTS, WORK

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "search"))

import crew
from postgres_server import running_postgres

WORKERS = (1, 2, 4, 8)
JUDGING = ((0.0, 400), (0.1, 160))  # seconds, pieces of work
WAITING = (1_000, 10_000, 100_000)
CLAIMS = 200
_NUMBERS = count(1)


def fresh(server: str) -> str:
    name = f"rate{next(_NUMBERS)}"
    engine = create_engine(f"{server}/postgres", isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return f"{server}/{name}"


def rate(server: str, workers: int, seconds: float, pieces: int) -> float:
    url = fresh(server)
    engine = open_url(url, "--database")
    queue, roster = WorkQueue(engine), Roster(engine, silence=120)
    with ExitStack() as stack:
        for _ in range(workers):
            stack.enter_context(crew.started(url, "--seconds", str(seconds)))
        while len(roster.alive()) < workers:
            time.sleep(0.1)
        for number in range(pieces):
            queue.put(crew.job(f"source {number}"))
        while queue.tally().results < pieces:
            time.sleep(0.2)
    times = func.max(RESULTS.c.recorded) - func.min(RESULTS.c.recorded)
    with reading(engine) as session:
        took = session.scalar(select(times))
    engine.dispose()
    return (pieces - 1) / took


def fill(engine: Engine, pieces: int) -> None:
    """Put work there by a shorter way than one transaction each."""
    queue = WorkQueue(engine)
    first = crew.job("source")
    queue.put(first)
    with reading(engine) as session:
        row = dict(session.execute(select(WORK)).one()._mapping)
    del row["number"]
    with claiming(engine) as session:
        rows = [{**row, "name": f"judge-{number}"} for number in range(pieces)]
        session.execute(insert(WORK), rows)


def claims(server: str, pieces: int) -> tuple[float, float]:
    """Return milliseconds of a claim and of a record, the median."""
    url = fresh(server)
    engine = open_url(url, "--database")
    fill(engine, pieces)
    queue = WorkQueue(engine)
    who = Claimant(name="a", context=crew.CONTEXT, targets=[target_hash(crew.job(None))])
    took: list[list[float]] = [[], []]
    for _ in range(CLAIMS):
        began = time.perf_counter()
        lease = queue.claim(who)
        took[0].append(time.perf_counter() - began)
        assert lease is not None
        began = time.perf_counter()
        assert queue.finish(lease, crew.answer(lease.job))
        took[1].append(time.perf_counter() - began)
    engine.dispose()
    return 1e3 * statistics.median(took[0]), 1e3 * statistics.median(took[1])


def main() -> None:
    with running_postgres() as server:
        if "--waiting" not in sys.argv:
            print("judging, s | workers | a second | of one worker's times their number")
            for seconds, pieces in JUDGING:
                one = 0.0
                for workers in WORKERS:
                    found = rate(server.url, workers, seconds, pieces)
                    one = one or found
                    share = found / one / workers
                    print(f"{seconds:10g} | {workers:7d} | {found:8.1f} | {share:.2f}", flush=True)
        print("waiting | claim, ms | record, ms")
        for pieces in WAITING:
            print(
                "{:7d} | {:9.1f} | {:.1f}".format(pieces, *claims(server.url, pieces)), flush=True
            )


if __name__ == "__main__":
    main()
