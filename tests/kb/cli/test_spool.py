"""`kb evolve --spool` beside `kb judge`: two processes and a folder, real parts throughout."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from scripted import REFERENCE, write_task

pytestmark = pytest.mark.timed


def spooled(folder: Path) -> Path:
    (folder / "spool").mkdir(exist_ok=True)
    search = {"rounds": 1, "ideas": 1, "branches": 3}
    return write_task(
        folder, {"spool": "spool"}, search=search, final_seconds=0.3, timing_seconds=0.2
    )


@pytest.fixture
def judging(request):
    """Return a function that starts `kb judge` on a shell's spool folder with a home of its own."""
    running = []

    def start(shell, *options):
        home = shell.folder / "far-home"
        home.mkdir()
        (home / "cache").symlink_to((shell.home / "cache").resolve())
        far = type(shell)(shell.folder, home)
        place = shell.folder / "spool"
        process = far.start("judge", place, "--json", "--device", "cpu", *options)
        running.append(process)
        return process

    yield start
    for process in running:
        if process.poll() is None:
            process.kill()
            process.communicate()


def interrupted(shell, *command) -> str:
    """Start a run, press Ctrl-C once it waits for a judge that is not there, return what it said."""
    run = shell.start(*command)
    while run.poll() is None and not list((shell.folder / "spool").glob("jobs/*.json")):
        time.sleep(0.05)
    os.killpg(run.pid, signal.SIGINT)
    _, complaint = run.communicate(timeout=240)
    assert run.returncode == 130, complaint
    assert "Traceback" not in complaint
    return complaint


@pytest.mark.slow
def test_a_search_is_judged_elsewhere_and_survives_ctrl_c(make_shell, judging):
    shell = make_shell()
    task = spooled(shell.folder)
    assert "kb resume ref-1" in interrupted(shell, "evolve", task, "--json")
    judge = judging(shell)
    done = shell("resume", "ref-1", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["best"]["speedup"]["eager"]["ratio"] > 0
    assert set(report["baselines"]) == {"eager", "compile"}
    assert report["outcomes"]["passed"] >= 3, done.stderr
    assert "judged on" in done.stderr
    judge.send_signal(signal.SIGTERM)
    output, complaint = judge.communicate(timeout=240)
    assert "Traceback" not in complaint
    lines = [json.loads(line) for line in output.splitlines()]
    jobs = [line["job"] for line in lines[:-1]]
    assert len(jobs) == len(set(jobs))
    assert [line["kind"] for line in lines[:-1]].count("wrong") == report["outcomes"]["wrong"] == 1
    # Two candidates with one source are judged once.
    assert 3 <= sum(job.startswith("judge-") for job in jobs) <= report["candidates"]
    assert 1 <= sum(job.startswith("confirm-") for job in jobs) <= 3
    assert lines[-1]["failed"] == 0


def test_a_task_names_its_spool_and_what_is_wrong_is_one_line(make_shell):
    shell = make_shell()
    (shell.folder / "ref.py").write_text(REFERENCE)
    for evaluator, told in (
        (
            "far",
            "key 'evaluator': expected local, workers, or a folder as {spool: path}, found 'far'",
        ),
        (
            {"spool": "x", "spol": "x"},
            "unknown key 'evaluator.spol': known here are spool",
        ),
        ({}, "key 'evaluator.spool' is missing"),
    ):
        task = shell.folder / "task.yaml"
        task.write_text(json.dumps({"reference": "ref.py", "evaluator": evaluator}))
        done = shell("evolve", task)
        assert done.returncode == 2
        assert told in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1


def test_help_lists_the_commands_for_machines_apart(make_shell):
    shell = make_shell()
    listed = shell("--help").stdout
    assert "judge" in listed
    assert "wheelhouse" in listed
    told = shell("judge", "--help")
    assert told.returncode == 0
    assert "--lease" in told.stdout


def test_other_commands_say_what_a_judging_machine_lacks(tmp_path):
    code = "import sys; sys.modules['typer'] = None; sys.argv = ['kb', 'runs']; from kb.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    assert "which every command but `kb judge` needs" in done.stderr
