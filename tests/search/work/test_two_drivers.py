"""Two searches on one database: what one has had judged, the other does not ask for again."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import crew
import pytest
import stage
from sqlalchemy import Engine, select

from kb.database import reading
from search.runs.storage import Storage
from search.runs.tables import NODES
from search.work.tables import WORK


@pytest.mark.slow
def test_two_searches_at_once_have_each_source_judged_once(engine: Engine, tmp_path: Path) -> None:
    Storage(engine)
    url = engine.url.render_as_string(hide_password=False)
    with ExitStack() as started:
        workers = [started.enter_context(crew.started(url, "--seconds", "0.02")) for _ in range(2)]
        drivers = [
            started.enter_context(crew.started(url, "--drive", "--task", task))
            for task in ("left", "right")
        ]
        for driver in drivers:
            assert driver.wait(timeout=200) == 0, driver.communicate()[1]
        for worker in workers:
            worker.terminate()
        judged = "".join(worker.communicate(timeout=60)[0] for worker in workers).split()
    # Both runs are the unbroken one, and there is one result for each of its sources.
    count = stage.check(url, tmp_path, runs=("left-1", "right-1"))
    assert len([name for name in judged if name.startswith("judge-")]) == count
    with reading(engine) as session:
        assert set(session.scalars(select(WORK.c.token))) == {1}  # nothing was leased twice
        outcomes = session.execute(select(NODES.c.source, NODES.c.outcome)).all()
    assert len(set(outcomes)) == count < len(outcomes)  # one record stands for both
