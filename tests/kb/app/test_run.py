from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from scripted import REFERENCE
from sqlalchemy import text

from kb.app.history import open_run
from kb.app.live import RunIsLive, is_worked_on, working_on
from kb.app.mcp.session import TaskSession
from kb.app.resume import keep_reference, stored_task
from kb.app.run import evolve, resume, task_slug
from kb.cli.render.run_report import report_text
from kb.config import Home
from kb.database import claiming, holding, open_engine
from kb.errors import ConnectionLost, StoreError
from kb.progress import silent
from search.runs.storage import Storage
from search.task import load_task


@pytest.mark.slow
def test_a_run_that_is_interrupted_while_it_is_put_together_can_be_gone_on_with(
    tmp_path, monkeypatch
):
    def interrupted(*_):
        raise KeyboardInterrupt

    reference = tmp_path / "ref.py"
    reference.write_text(REFERENCE)
    home, begun = Home(tmp_path / "home").make(), []
    monkeypatch.setattr("kb.app.run.build", interrupted)
    with pytest.raises(KeyboardInterrupt):
        evolve(home, load_task(reference), silent, lambda *_: None, begun.append)
    (run,) = begun
    row = Storage(open_engine(home)).run(run)
    assert row.status == "interrupted"
    found = open_run(home, run)
    why = f"it was interrupted before a candidate was judged: `kb resume {run}` goes on"
    assert why in report_text(found.report(), [])
    with pytest.raises(StoreError, match=why):
        found.standalone()
    reference.unlink()
    assert stored_task(home, run, row.about).source == REFERENCE


HOLDER = (
    "import sys, time; from pathlib import Path\n"
    "from kb.app.live import working_on; from kb.config import Home\n"
    "with working_on(Home(Path(sys.argv[1])), sys.argv[2]):\n"
    "    print('held', flush=True); time.sleep(600)\n"
)


@contextmanager
def held_elsewhere(home: Home, run: str) -> Iterator[subprocess.Popen[str]]:
    """Have another process work on a run, which is killed at the end."""
    named = {"KB_DATABASE": os.environ["KB_DATABASE"]} if "KB_DATABASE" in os.environ else {}
    other = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(home.root), run],
        env={"PYTHONPATH": ":".join(filter(None, sys.path)), **named},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        yield other
    finally:
        other.send_signal(signal.SIGKILL)
        other.communicate()


@pytest.mark.slow
def test_a_run_that_another_process_works_on_is_left_to_it_until_that_process_is_gone(tmp_path):
    home = Home(tmp_path / "home").make()
    record = Storage(open_engine(home)).begin("softmax", {"author": "mcp"})
    with held_elsewhere(home, record.run):
        line = f"{record.run} is being worked on by another process: wait for it, or end it"
        with pytest.raises(RunIsLive, match=line):
            resume(home, record.run, silent, lambda *_: None, print)
    with working_on(home, record.run):
        pass
    with pytest.raises(StoreError, match="no run"):
        resume(home, "nowhere-1", silent, lambda *_: None, print)
    assert not (home.root / "runs" / "nowhere-1").exists()


def test_where_locks_cannot_be_looked_at_a_run_may_be_worked_on(tmp_path):
    home = Home(tmp_path / "home").make()
    run = Storage(open_engine(home)).begin("softmax", {"author": "mcp"}).run
    with working_on(home, run):
        assert is_worked_on(home, run)
    assert not is_worked_on(home, run)
    locks = next(home.root.glob("*.locks"))
    shutil.rmtree(locks)
    locks.touch()  # as in a folder that cannot be written
    assert is_worked_on(home, run)


@pytest.fixture(params=["sqlite", "postgresql"])
def homes(request, tmp_path, monkeypatch) -> tuple[Home, Home]:
    """Two homes that share a database."""
    url = f"sqlite:///{tmp_path}/shared.sqlite"
    if request.param == "postgresql":
        url = request.getfixturevalue("make_postgres_database")()
    monkeypatch.setenv("KB_DATABASE", url)
    return Home(tmp_path / "one").make(), Home(tmp_path / "other").make()


@pytest.mark.slow
def test_a_run_is_worked_on_in_one_home_of_those_that_share_its_database(homes):
    one, other = homes
    engine = open_engine(one)
    run, second = (Storage(engine).begin("softmax", {"author": "mcp"}).run for _ in range(2))
    engine.dispose()
    with held_elsewhere(one, run):
        assert (is_worked_on(other, run), is_worked_on(other, second)) == (True, False)
        with pytest.raises(RunIsLive, match=f"{run} is being worked on by another process"):
            resume(other, run, silent, lambda *_: None, print)
        with working_on(other, second):
            pass
    end = time.monotonic() + 20  # the server notices a moment after a process was killed
    while is_worked_on(other, run) and time.monotonic() < end:
        time.sleep(0.05)
    assert not is_worked_on(other, run)
    with working_on(other, run):
        pass


@pytest.mark.slow
def test_a_run_whose_lock_is_lost_with_the_connection_is_held_anew(
    tmp_path, monkeypatch, make_postgres_database
):
    monkeypatch.setenv("KB_DATABASE", make_postgres_database())
    home = Home(tmp_path / "home").make()
    engine = open_engine(home)
    run = Storage(engine).begin("softmax", {"author": "recipes"}).run
    others = "pid <> pg_backend_pid() AND datname = current_database()"
    attempts = []

    def go_on(*_: object) -> str:
        attempts.append(run)
        with pytest.raises(RunIsLive), working_on(home, run):
            pass
        if len(attempts) == 1:
            with claiming(engine) as session:
                end = text(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}")
                session.execute(end)
            with working_on(home, run):  # nobody holds it now
                pass
            raise ConnectionLost("the server was started again")
        return "ended"

    monkeypatch.setattr("kb.app.run._go_on", go_on)
    assert resume(home, run, silent, lambda *_: None, print) == "ended"
    assert len(attempts) == 2
    engine.dispose()


def test_who_holds_a_run_for_hours_keeps_nothing_from_being_cleaned_up(
    tmp_path, monkeypatch, make_postgres_database
):
    monkeypatch.setenv("KB_DATABASE", make_postgres_database())
    engine = open_engine(Home(tmp_path / "home").make())
    query = text(
        "SELECT count(backend_xmin) + count(backend_xid) FROM pg_stat_activity WHERE state <> 'active'"
    )
    with holding(engine, "a run") as free, claiming(engine) as session:
        assert free
        assert session.scalar(query) == 0
    engine.dispose()


@pytest.mark.slow
def test_a_run_that_another_process_works_on_is_not_opened_for_an_agent(tmp_path):
    home = Home(tmp_path / "home").make()
    run = Storage(open_engine(home)).begin("softmax", {"author": "mcp"}).run
    with working_on(home, run), pytest.raises(RunIsLive, match="is being worked on"):
        TaskSession(home).open_task(run, silent)


def test_the_run_of_a_task_with_a_long_name_is_named_as_a_folder_may_be(tmp_path):
    reference = tmp_path / "ref.py"
    reference.write_text(REFERENCE)
    task = replace(load_task(reference), name="fast-norm " * 40)
    run = f"{task_slug(task)}-12"
    assert run.startswith("fast-norm-fast-norm-")
    assert "--" not in run
    assert keep_reference(Home(tmp_path / "home"), run, task).is_file()
