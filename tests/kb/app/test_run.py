from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import replace

import pytest
from scripted import REFERENCE

from kb.app.live import RunIsLive, working_on
from kb.app.mcp.session import TaskSession
from kb.app.resume import keep_reference, stored_task
from kb.app.run import evolve, resume, task_slug
from kb.config import Home
from kb.database import open_engine
from kb.errors import StoreError
from kb.progress import silent
from search.runs.storage import Storage
from search.task import load_task


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
    reference.unlink()
    assert stored_task(home, run, row.about).source == REFERENCE


def test_a_run_that_another_process_works_on_is_left_to_it_until_that_process_is_gone(tmp_path):
    home = Home(tmp_path / "home").make()
    storage = Storage(open_engine(home))
    record = storage.begin("softmax", {"author": "mcp"})
    holder = (
        "import sys, time; from pathlib import Path\n"
        "from kb.app.live import working_on; from kb.config import Home\n"
        "with working_on(Home(Path(sys.argv[1])), sys.argv[2]):\n"
        "    print('held', flush=True); time.sleep(600)\n"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", holder, str(home.root), record.run],
        env={"PYTHONPATH": ":".join(filter(None, sys.path))},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        line = f"{record.run} is being worked on by another process: wait for it, or end it"
        with pytest.raises(RunIsLive, match=line):
            resume(home, record.run, silent, lambda *_: None, print)
    finally:
        other.send_signal(signal.SIGKILL)
        other.communicate()
    with working_on(home, record.run):
        pass
    with pytest.raises(StoreError, match="no run"):
        resume(home, "nowhere-1", silent, lambda *_: None, print)
    assert not (home.root / "runs" / "nowhere-1").exists()


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
