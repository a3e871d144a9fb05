"""`kb evolve --workers` beside `kb worker`: processes and one database, real parts throughout."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
import typer.main
from scripted import REFERENCE, write_task
from sqlalchemy import create_engine, text

from kb.cli.commands import app

pytestmark = pytest.mark.timed

SMALL: dict[str, object] = {
    "search": {"rounds": 1, "ideas": 1, "branches": 2},
    "final_seconds": 0.3,
    "timing_seconds": 0.2,
    "compiler": False,
}
# The machine of a test is shared: its known kernels may take many times as long a moment later.
STEADY = ("--drift", "1000")


@pytest.fixture
def shell(make_shell, make_postgres_database):
    """A shell whose home has the shipped documents, and whose runs are in PostgreSQL."""
    made = make_shell()
    made.env["KB_DATABASE"] = make_postgres_database()
    done = made("init", "--json")
    assert done.returncode == 0, done.stderr
    return made


def end_connections(url: str) -> int:
    """End every connection to a database but this one, and return how many there were."""
    server = create_engine(url, isolation_level="AUTOCOMMIT")
    with server.connect() as connection:
        ended = connection.execute(
            text(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        ).all()
    server.dispose()
    return len(ended)


def lines_of(output: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in output.splitlines()]


@pytest.mark.slow
def test_a_search_is_judged_by_a_worker_of_its_database(shell):
    task = write_task(shell.folder, "local", **SMALL)
    run = shell.start("evolve", task, "--workers", "--json")
    worker = shell.start("worker", "--devices", "cpu", "--json", *STEADY)
    output, complaint = run.communicate(timeout=400)
    assert run.returncode == 0, complaint
    report = json.loads(output)
    assert report["best"]["speedup"]["eager"]["ratio"] > 0
    assert set(report["baselines"]) == {"eager"}  # the task says compiler: false
    assert report["outcomes"]["wrong"] == 1
    assert "judged by workers like" in complaint
    assert "group 1" in complaint
    worker.send_signal(signal.SIGTERM)
    output, complaint = worker.communicate(timeout=60)
    assert worker.returncode == 130, complaint
    assert "Traceback" not in complaint
    *judged, end = lines_of(output)
    assert len({line["job"] for line in judged}) == len(judged)
    assert (end["end"], end["recorded"], end["lost"]) == ("stopped", len(judged), 0)
    # A second run of the same task is answered from the record alone, with no worker there, while
    # the server ends every connection six times, each a bit longer after there is one.
    run = shell.start("evolve", task, "--workers", "--json")
    lost = 0
    for number in range(6):
        ended = 0
        while run.poll() is None and not (ended := end_connections(shell.env["KB_DATABASE"])):
            time.sleep(0.02)
        lost += ended
        time.sleep(0.1 * number)
    assert lost, "the run ended before it had a connection to lose"
    output, complaint = run.communicate(timeout=400)
    assert run.returncode == 0, complaint
    assert json.loads(output)["candidates"] == report["candidates"]


@pytest.mark.slow
def test_a_worker_with_nothing_to_do_ends_at_once_if_told_so(bare_shell):
    url = f"sqlite:///{bare_shell.folder}/shared.sqlite"
    done = bare_shell("worker", "--database", url, "--devices", "cpu", "--once", "--json", *STEADY)
    assert done.returncode == 0, done.stderr
    (end,) = lines_of(done.stdout)
    assert (end["end"], end["recorded"]) == ("done", 0)


@pytest.mark.slow
def test_a_pool_of_workers_starts_those_again_that_are_killed(bare_shell):
    pool = bare_shell.start("worker", "--devices", "cpu,cuda:99", "--json", *STEADY)
    lines = []
    for line in pool.stderr:
        lines.append(line)
        if "cuda:99 ended" in line:
            break
    assert any("expected a GPU below 0, found cuda:99" in line for line in lines)
    os.killpg(pool.pid, signal.SIGTERM)
    output, complaint = pool.communicate(timeout=60)
    assert pool.returncode == 130, complaint
    assert [line["end"] for line in lines_of(output)] == ["stopped"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--devices", "gpu"), "--devices takes auto, all, or names"),
        (("--database", "mysql://secret@host/x"), "--database: expected the URL"),
        (("--database", "postgresql+psycopg://kb@127.0.0.1:1/x"), "expected a connection"),
    ],
)
def test_what_is_wrong_is_one_line(bare_shell, options, said):
    done = bare_shell("worker", *options)
    assert done.returncode == 2
    assert said in done.stderr
    assert "secret" not in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.slow
@pytest.mark.skipif(find_spec("ray") is None, reason="no Ray: pip install 'kernel-kb[ray]'")
def test_a_search_starts_its_workers_on_ray(make_shell):
    shell = make_shell()
    task = write_task(shell.folder, "local", **SMALL)
    done = shell("evolve", task, "--ray", "local", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["outcomes"]["wrong"] == 1
    assert "a worker on cpu" in done.stderr
    assert "Traceback" not in done.stderr
    workers = sqlite3.connect(shell.home / "kb.sqlite").execute("SELECT * FROM workers").fetchall()
    assert workers == []  # each gave its work back and said so


def test_ray_that_is_not_installed_is_one_line(bare_shell):
    (bare_shell.folder / "ref.py").write_text(REFERENCE)
    bare_shell.env["PYTHONPATH"] = f"{bare_shell.folder}:{bare_shell.env.get('PYTHONPATH', '')}"
    (bare_shell.folder / "ray.py").write_text("raise ImportError('none')\n")
    done = bare_shell("evolve", "ref.py", "--ray", "local")
    assert done.returncode == 2
    assert "pip install 'kernel-kb[ray]'" in done.stderr


PAGE = Path(__file__).parents[3] / "docs" / "workers.md"


def test_the_commands_of_the_page_are_those_of_the_command_line():
    known = typer.main.get_command(app).commands
    lines = re.findall(r"^\$ (?:\w+=\S+ )*kb (\w+)(.*)$", PAGE.read_text(), re.MULTILINE)
    assert len(lines) >= 6
    for command, rest in lines:
        options = {option for one in known[command].params for option in one.opts}
        assert set(re.findall(r"--[\w-]+", rest)) <= options
