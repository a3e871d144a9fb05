"""A large search on a real PostgreSQL while drivers, workers and connections are killed at random.

    python -m benchmarks.work.chaos --deaths 200 --workers 4 --seed 1

Ends with what was killed how often, and that the graph is that of an unbroken run: each candidate is on
record once, and none is missing. tests/search/work/test_chaos.py is the same with 12 deaths.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from sqlalchemy import create_engine, text

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "search"))

import stage
from postgres_server import running_postgres


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--deaths", type=int, default=200)
    options.add_argument("--workers", type=int, default=4)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    chance = random.Random(given.seed)
    plan = chance.choices(("driver", "worker", "connections"), (1, 2, 3), k=given.deaths)
    rounds = max(6, given.deaths // 2)
    began = time.monotonic()
    with running_postgres() as server, tempfile.TemporaryDirectory() as folder:
        engine = create_engine(f"{server.url}/postgres", isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text("CREATE DATABASE chaos"))
        engine.dispose()
        url = f"{server.url}/chaos"
        deaths = stage.disturbed(url, plan, chance, workers=given.workers, rounds=rounds)
        judged = stage.check(url, Path(folder), rounds)
    killed = ", ".join(f"{count} times {what}" for what, count in sorted(deaths.items()))
    print(f"{judged} candidates judged, 0 lost, 0 double, the graph of an unbroken run; killed: {killed}; "
          f"{time.monotonic() - began:.0f} s")  # fmt: skip


if __name__ == "__main__":
    main()
