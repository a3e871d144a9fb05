"""Workers on a real Ray cluster of two nodes on this machine: actors and nodes are killed."""

from __future__ import annotations

import os
import signal
import time
import warnings
from collections.abc import Iterator

import pytest
from machines import BOUNDLESS
from office import FAST, RELU, RIGHT, WRONG, make_task
from sqlalchemy import select

from kb.config import Home
from kb.database import open_file, reading
from kb.errors import ToolchainError
from search.judged import plain_target, plain_task
from search.judging.spool.job import Job
from search.work.pools import WorkerOptions
from search.work.queue import WorkQueue
from search.work.roster import Roster
from search.work.tables import RESULTS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timed,
    pytest.mark.skipif(
        not __import__("importlib.util").util.find_spec("ray"),
        reason="no Ray: pip install 'kernel-kb[ray]'",
    ),
    pytest.mark.filterwarnings("ignore"),  # Ray's own, at its import and at its end
]


@pytest.fixture
def cluster() -> Iterator[object]:
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from ray.cluster_utils import Cluster

        made = Cluster(
            initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
        )
        made.add_node(num_cpus=1)
    yield made
    made.shutdown()


def until(true, seconds: float = 150) -> None:
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() >= end:
            raise TimeoutError("it did not happen in time")
        time.sleep(0.2)


@pytest.mark.slow
def test_actors_and_nodes_that_are_killed_lose_no_work_and_double_none(cluster, tmp_path):
    from search.work.pools.ray import RayPool, tended

    home = Home(tmp_path / "home").make()
    queue = WorkQueue(open_file(home.database), lease=5)
    task = plain_task(make_task(tmp_path, RELU))
    common = {"task": task, "target": plain_target(BOUNDLESS), "device": "cpu", "limits": FAST}
    jobs = [Job(**common, seed=seed) for seed in range(2)]
    options = WorkerOptions(database=home.database_url, home=str(home.root), lease=5, drift=1000)
    roster = Roster(queue.engine, silence=10)

    def done() -> int:
        return queue.tally().states.get("done", 0)

    with tended(RayPool(cluster.address, options)) as pool:
        until(lambda: len(roster.alive()) == 2)
        for job in jobs:
            queue.put(job)
        until(lambda: done() >= 1)
        context = next(
            state.answer.context
            for state in queue.look([job.name for job in jobs]).values()
            if state.answer
        )
        for number in range(6):
            source = f"{(RIGHT, WRONG)[number % 2]}\n# {number}\n"
            jobs.append(Job(**common, seed=0, source=source, expected=context))
            queue.put(jobs[-1])
        until(lambda: done() >= 3)
        for pid in list(pool.pids().values())[:1]:
            os.kill(pid, signal.SIGKILL)
        until(lambda: done() >= 5)
        cluster.remove_node(cluster.list_all_nodes()[1], allow_graceful=False)
        until(lambda: done() == len(jobs))
    until(
        lambda: roster.alive() == []
    )  # who was killed could not say so: it is missed by its silence
    with reading(queue.engine) as session:
        rows = session.execute(select(RESULTS.c.candidate, RESULTS.c.bench, RESULTS.c.what)).all()
    assert len(rows) == len(set(rows)) == len(jobs)
    kinds = [state.answer.outcome for state in queue.look([j.name for j in jobs[2:]]).values()]
    assert sorted(one.kind for one in kinds) == ["passed"] * 3 + ["wrong"] * 3


def test_an_address_where_no_cluster_is_is_one_line():
    from search.work.pools.ray import RayPool

    options = WorkerOptions(database="sqlite:////tmp/none.sqlite")
    with pytest.raises(ToolchainError, match="--ray: expected the address of a Ray cluster"):
        RayPool("127.0.0.1:1", options).start()
