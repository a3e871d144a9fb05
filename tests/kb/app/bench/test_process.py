"""A problem that fails, kills its process or prints is a row with its reason."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
import types
from collections.abc import Callable
from pathlib import Path

import pytest

from kb.app.bench import process
from kb.app.bench.devices import BenchDevice
from kb.app.bench.process import ProblemJob, ProblemProcess, start_process
from kb.app.bench.rows import SuiteRow
from kb.app.bench.session import Bench
from kb.app.live import working_on
from kb.config import Home
from kb.database import open_engine
from kb.errors import StoreError
from search.runs.storage import Storage
from search.task import load_task


@pytest.fixture
def work(tmp_path, write_problem):
    """Return a function that has a problem with this body worked on."""

    def run(body: str, patience: float | None = None) -> SuiteRow | None:
        home = Home(tmp_path / "home").make()
        job = ProblemJob(
            task=load_task(write_problem(tmp_path / "1_problem.py", body)),
            home=home.root,
            blank=SuiteRow(problem="1_problem", key="k", status="not_judged"),
            run=None,
            log=tmp_path / "log" / "1_problem.log",
            patience=patience,
        )
        return make(job).run()

    return run


def make(job: ProblemJob) -> ProblemProcess:
    return ProblemProcess(job=job, device=BenchDevice(name="here"), begun=lambda _run: None)


@pytest.mark.slow
def test_a_reference_that_raises_is_a_row_with_its_line(work):
    row = work("raise ValueError('not today')")
    assert row.status == "not_judged"
    assert "raised ValueError at line 7: not today" in row.reason


@pytest.mark.slow
def test_a_reference_that_kills_its_process_is_a_row_that_says_so(work):
    row = work("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert row.status == "not_judged"
    assert "ended by SIGKILL" in row.reason


@pytest.mark.slow
def test_a_knowledge_base_that_cannot_be_read_ends_the_suite_and_is_no_row(work, tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "kb.sqlite").write_text("no database, and longer than its head" * 100)
    with pytest.raises(StoreError, match="the suite ends here; the same command goes on"):
        work("return torch.relu(x)")


@pytest.mark.slow
def test_what_a_reference_prints_is_in_the_log_and_no_event(work, tmp_path):
    row = work("""print('{"event": "end", "report": {}}', flush=True); raise ValueError('x')""")
    assert row.status == "not_judged"
    assert '"event": "end"' in (tmp_path / "log" / "1_problem.log").read_text()


@pytest.mark.slow
def test_samples_that_cannot_be_judged_are_a_line_and_no_traceback(tmp_path):
    ended = "types.SimpleNamespace(interrupted=False, run='gone-1', report={'best': {'node': 1}})"
    code = (
        "import types; from kb.app.bench import child\n"
        f"child._work = lambda job, teller: {ended}\nchild.main()"
    )
    job = {"home": str(tmp_path), "samples": str(tmp_path / "none.json"), "run": None}
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(job),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert json.loads(done.stdout)["message"].startswith("no run 'gone-1'")
    assert "Traceback" not in done.stderr


def test_an_operator_that_ends_its_process_on_another_sample_is_solved_all_the_same(
    work, monkeypatch
):
    passed = {"ratio": 2.0, "low": 1.9, "high": 2.1}
    best = {"node": 1, "speedup": {"eager": passed}, "idea": "an idea", "profile": {}}
    report = {"run": "p-1", "target": "zen4", "language": "cpp", "author": "recipes", "candidates": 1,
              "outcomes": {"passed": 1}, "seconds": 3.0, "timed": True, "best": best}  # fmt: skip
    events = [
        {"event": "run", "run": "p-1"},
        {"event": "judged", "run": "p-1"},
        {"event": "report", "report": report, "failures": []},
        {"event": "answer", "answer": ["sample 0", "own", ""]},
        {"event": "sample", "sample": "other strides"},
    ]
    child = f"import os\nfor one in {[json.dumps(one) for one in events]!r}: print(one, flush=True)\nos.abort()"
    monkeypatch.setattr(process, "_CHILD", child)
    row = work("return x")
    assert row.status == "solved", row
    assert row.samples == {"own": 1, "library": 0, "wrong": 0}
    assert row.reason.startswith(
        "not all samples were tried: at other strides its process was ended by SIGABRT"
    )


@pytest.mark.slow
def test_a_reference_that_leaves_ends_its_problem_alone(work):
    row = work("import os; os._exit(7)")
    assert row.status == "not_judged"
    assert "ended with code 7" in row.reason


# As one that waits for a GPU: no signal reaches it.
DEAF = """import time
        print("at work", flush=True)
        while True:
            try:
                time.sleep(1)
            except KeyboardInterrupt:
                print("deaf", flush=True)
"""


@pytest.mark.slow
def test_a_problem_that_does_not_end_is_ended_after_what_was_allowed(work):
    row = work(DEAF, patience=15)
    assert row.status == "not_judged"
    assert row.reason.startswith("not done after 15 s")


@pytest.mark.slow
def test_an_interrupted_problem_that_hears_nothing_is_killed(tmp_path, write_problem, monkeypatch):
    monkeypatch.setattr(process, "ENDING", 2.0)
    job = ProblemJob(
        task=load_task(write_problem(tmp_path / "1_problem.py", DEAF)),
        home=Home(tmp_path / "home").make().root,
        blank=SuiteRow(problem="1_problem", key="k", status="not_judged"),
        run=None,
        log=tmp_path / "1_problem.log",
    )
    one, found = make(job), []
    thread = threading.Thread(target=lambda: found.append(one.run()))
    thread.start()
    wait_for(tmp_path / "1_problem.log", "at work", thread.is_alive)
    one.interrupt()
    thread.join(60)
    assert found == [None]
    assert "deaf" in (tmp_path / "1_problem.log").read_text()


@pytest.mark.slow
def test_a_problem_whose_suite_is_gone_ends_though_it_hears_nothing(tmp_path):
    log = tmp_path / "log"
    below = f"""
import os, threading, time
from kb.app.bench import child
child.ENDING = 0.2
threading.Thread(target=child._end_with, args=(os.getppid(),), daemon=True).start()
log = open({str(log)!r}, "w", buffering=1)
log.write(f"{{os.getpid()}} at work\\n")
time.sleep(600)
"""
    above = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"import subprocess, sys; subprocess.run([sys.executable, '-c', {below!r}])",
        ]
    )
    wait_for(log, "at work", lambda: above.poll() is None)
    ended = os.pidfd_open(int(log.read_text().split()[0]))
    above.kill()
    above.wait()
    readable, _, _ = select.select([ended], [], [], 60)
    os.close(ended)
    assert readable  # of a process, when it has ended


def wait_for(log: Path, what: str, lives: Callable[[], bool]) -> None:
    """Wait until a process that lives has written something."""
    while not (log.is_file() and what in log.read_text()):
        assert lives(), f"it ended without {what!r} in {log}"
        time.sleep(0.05)


@pytest.mark.slow
def test_a_problem_can_be_interrupted_where_the_suite_runs_in_the_background(
    tmp_path, write_problem
):
    """A shell without job control has its background ignore SIGINT, and children inherit that."""
    home, log = Home(tmp_path / "home").make(), tmp_path / "1_problem.log"
    body = "import time; print('at work', flush=True); time.sleep(100); return x"
    job = ProblemJob(
        task=load_task(write_problem(tmp_path / "1_problem.py", body)),
        home=home.root,
        blank=SuiteRow(problem="1_problem", key="k", status="not_judged"),
        run=None,
        log=log,
    )
    process, found = make(job), []
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        thread = threading.Thread(target=lambda: found.append(process.run()))
        thread.start()
        while not (log.is_file() and "at work" in log.read_text()):
            time.sleep(0.05)
        process.interrupt()
        thread.join(60)
    finally:
        signal.signal(signal.SIGINT, before)
    assert found == [None]


@pytest.mark.slow
def test_a_process_that_waited_works_on_the_problem_and_writes_its_log(tmp_path, write_problem):
    waiting = start_process(BenchDevice(name="here"), subprocess.DEVNULL, "warm")
    log = tmp_path / "log" / "1_problem.log"
    job = ProblemJob(
        task=load_task(write_problem(tmp_path / "1_problem.py", "raise ValueError('not today')")),
        home=Home(tmp_path / "home").make().root,
        blank=SuiteRow(problem="1_problem", key="k", status="not_judged"),
        run=None,
        log=log,
    )
    process = make(job)
    process.started = waiting
    row = process.run()
    assert row is not None
    assert "raised ValueError at line 7: not today" in row.reason
    assert "loading the reference" in log.read_text()
    assert waiting.returncode == 2


def test_a_process_waits_for_each_problem_that_is_left_and_a_dead_one_is_not_used():
    device = BenchDevice(name="cuda:0")
    place = types.SimpleNamespace(how="cuda")
    bench = Bench(
        home=None, suite=None, place=place, devices=(device,), records=None, name="s",
        waiting=["a", "b", "c"], present=0,
    )  # fmt: skip
    assert bench._started(device) is None
    (second,) = bench._warm.values()
    assert bench._started(device) is second
    (third,) = bench._warm.values()
    third.kill()
    third.wait()
    assert bench._started(device) is None
    assert not bench._warm
    second.kill()
    second.communicate()
    bench.place = types.SimpleNamespace(how="cpu")
    assert bench._started(device) is None


@pytest.mark.slow
def test_a_problem_whose_run_another_process_works_on_gets_no_row(tmp_path, write_problem, capsys):
    home = Home(tmp_path / "home").make()
    run = Storage(open_engine(home)).begin("problem", {"author": "mcp"}).run
    job = ProblemJob(
        task=load_task(write_problem(tmp_path / "1_problem.py", "return x")),
        home=home.root,
        blank=SuiteRow(problem="1_problem", key="k", status="not_judged"),
        run=run,
        log=tmp_path / "log" / "1_problem.log",
    )
    with working_on(home, run):
        assert make(job).run() is None
    assert f"1_problem is left alone: {run} is being worked on" in capsys.readouterr().err
