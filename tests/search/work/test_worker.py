"""Workers for real: processes of their own, killed at each moment of the protocol."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import crew
import pytest
from crew import CONTEXT, FreeJudge, answer, job
from sqlalchemy import Engine, select, update

from kb.database import claiming, reading
from kb.errors import ToolchainError
from search.judging.known_kernels import Calibration
from search.judging.spool.judge_process import Died
from search.work.calibration import Calibrations, Drifted
from search.work.queue import MOST_DEATHS, WorkQueue
from search.work.roster import Roster
from search.work.tables import RESULTS, WORK
from search.work.worker import JudgingWorker

SLOW = Calibration(arithmetic=2e-3, memory=2e-3)


@pytest.fixture
def queue(engine: Engine) -> WorkQueue:
    return WorkQueue(engine)


def url_of(engine: Engine) -> str:
    return engine.url.render_as_string(hide_password=False)


def make(
    queue: WorkQueue, judge: FreeJudge, calibrations: Calibrations | None = None
) -> JudgingWorker:
    said: list[str] = []
    worker = JudgingWorker(
        queue, lambda tick: judge, calibrations, say=said.append, report=lambda line: None
    )
    worker.said = said
    return worker


def results(queue: WorkQueue) -> list[tuple[str, int]]:
    with reading(queue.engine) as session:
        rows = session.execute(select(RESULTS.c.candidate, RESULTS.c.token)).all()
    return [tuple(row) for row in rows]


@pytest.mark.slow
def test_a_worker_does_all_that_is_there_and_leaves_no_trace_of_itself(queue: WorkQueue) -> None:
    asked = [job(None), *(job(f"source {n}") for n in range(9))]
    for one in asked:
        queue.put(one)
    worker = make(queue, FreeJudge())
    tally = worker.run(once=True)
    assert (tally.recorded, tally.failed, tally.lost) == (10, 0, 0)
    found = queue.look([one.name for one in asked])
    assert [found[one.name].answer for one in asked] == [answer(one) for one in asked]
    assert Roster(queue.engine, silence=60).alive() == []


@pytest.mark.slow
def test_a_worker_killed_at_any_moment_loses_nothing_and_doubles_nothing(
    engine: Engine, queue: WorkQueue
) -> None:
    asked = [job(None), *(job(f"source {n}") for n in range(4))]
    for one in asked:
        queue.put(one)
    place = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = crew.command(url_of(engine), "--each-moment", "400", "--lease", "0.001")
    # Each death leaves a lease behind, and 5 of them would count as the work's own fault.
    with claiming(engine) as session:
        session.execute(update(WORK).values(expiries=-100_000))
    done = subprocess.run(
        command, env={**os.environ, **place}, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    deaths = int(done.stdout.split()[-1]) - 1
    assert deaths > 40, done.stdout  # one piece of work alone has more than ten moments
    found = queue.look([one.name for one in asked])
    assert [found[one.name].answer for one in asked] == [answer(one) for one in asked]
    assert len(results(queue)) == len(asked)
    with reading(engine) as session:
        assert session.scalars(select(WORK.c.token).where(WORK.c.token > 1)).all()


@pytest.mark.slow
def test_a_worker_that_is_told_to_stop_gives_its_work_back(
    engine: Engine, queue: WorkQueue
) -> None:
    one = job("source")
    queue.put(one)
    with crew.started(url_of(engine), "--seconds", "60") as process:
        end = time.monotonic() + 60
        while queue.look([one.name])[one.name].state != "leased":
            if time.monotonic() >= end:
                raise TimeoutError("it did not happen in time")
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        _, complaint = process.communicate(timeout=60)
    assert process.returncode == 0, complaint
    with reading(engine) as session:
        row = session.execute(select(WORK)).one()
    assert (row.state, row.deaths, row.expiries, row.worker) == ("waiting", 0, 0, None)
    assert Roster(engine, silence=60).alive() == []


@pytest.mark.slow
def test_a_worker_whose_lease_was_taken_records_nothing(engine: Engine, queue: WorkQueue) -> None:
    one = job("source")
    queue.put(one)
    with crew.started(url_of(engine), "--seconds", "3", "--lease", "1", "--once") as process:
        end = time.monotonic() + 60
        while queue.look([one.name])[one.name].state != "leased":
            if time.monotonic() >= end:
                raise TimeoutError("it did not happen in time")
            time.sleep(0.02)
        process.send_signal(signal.SIGSTOP)  # as a machine that sleeps
        while make(queue, FreeJudge()).run(once=True).recorded == 0:
            if time.monotonic() >= end:
                raise TimeoutError("it did not happen in time")
            time.sleep(0.1)
        process.send_signal(signal.SIGCONT)
        output, complaint = process.communicate(timeout=60)
    assert (process.returncode, output) == (0, "")
    assert "its lease ran out" in complaint
    assert [token for _, token in results(queue)] == [2]


def test_work_that_ends_its_judge_fails_in_the_end(queue: WorkQueue) -> None:
    class Mortal(FreeJudge):
        def ask(self, job):
            if job.source == "deadly":
                raise Died("SIGSEGV ended the judge")
            return super().ask(job)

    deadly, good = job("deadly"), job("good")
    queue.put(deadly)
    queue.put(good)
    tally = make(queue, Mortal()).run(once=True)
    assert (tally.recorded, tally.given_back) == (1, MOST_DEATHS)
    state = queue.look([deadly.name])[deadly.name]
    assert (state.state, state.failure.kind) == ("failed", "Died")


def test_hosts_that_are_equally_fast_are_one_group_and_others_are_not(queue: WorkQueue) -> None:
    calibrations = Calibrations(queue.engine)
    near = Calibration(arithmetic=1.05e-3, memory=2.1e-3)
    groups = [
        calibrations.group(CONTEXT, place, found)
        for place, found in [("a", crew.STEADY), ("b", SLOW), ("c", near), ("a", near)]
    ]
    assert groups == [1, 2, 1, 1]
    assert calibrations.group("another device", "d", crew.STEADY) == 1


def test_a_processor_that_was_first_timed_beside_other_work_is_not_refused_when_it_is_quiet(
    queue: WorkQueue,
) -> None:
    calibrations = Calibrations(queue.engine)
    quick = Calibration(arithmetic=1e-3, memory=5e-4)
    group = calibrations.group("judge", "one", SLOW, "cpu")
    assert calibrations.group("judge", "one", quick, "cpu") == group
    with pytest.raises(Drifted, match="memory takes 4"):
        calibrations.group("judge", "one", SLOW, "cpu")  # by now it is known to be faster
    with pytest.raises(Drifted):
        calibrations.group("judge", "one", Calibration(arithmetic=5e-4, memory=1e-3), "cpu")
    # Others are compared with these times, and a GPU's clock that is raised makes other times.
    assert calibrations.group("judge", "two", quick, "cpu") == group
    for kind in ("cpu", "cuda"):
        with pytest.raises(Drifted):
            calibrations.group("judge", "one", Calibration(arithmetic=1e-4, memory=1e-4), kind)


def test_what_was_timed_while_the_device_drifted_is_not_recorded(queue: WorkQueue) -> None:
    one = job("source 1", f"{CONTEXT} / group 1")
    queue.put(one)
    judge = FreeJudge()
    judge.speed = [crew.STEADY, SLOW]
    worker = make(queue, judge, Calibrations(queue.engine))
    with pytest.raises(ToolchainError, match=r"not as it was .arithmetic takes 2\.00 times"):
        worker.run(once=True)
    assert judge.judged == [one.name]
    assert results(queue) == []
    assert queue.look([one.name])[one.name].state == "waiting"
    judge.speed = [crew.STEADY]
    assert make(queue, judge, Calibrations(queue.engine)).run(once=True).recorded == 1


def test_a_worker_of_another_group_leaves_the_work_of_a_run(queue: WorkQueue) -> None:
    queue.put(job("source", f"{CONTEXT} / group 1"))
    calibrations = Calibrations(queue.engine)
    calibrations.group(CONTEXT, "first", crew.STEADY)
    slow = FreeJudge(host="slow")
    slow.speed = [SLOW]
    assert make(queue, slow, calibrations).run(once=True).recorded == 0
    assert make(queue, FreeJudge(), calibrations).run(once=True).recorded == 1
