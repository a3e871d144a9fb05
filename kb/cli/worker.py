"""kb worker: judges what searches put into the database."""

from __future__ import annotations

import json as json_lines
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from kb.cli.render.output import JSON
from kb.progress import say

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from search.work.pools import WorkerOptions
    from search.work.worker import JudgingWorker

INTERRUPTED = 130


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command(
        epilog="Examples: kb worker | KB_DATABASE=postgresql+psycopg://kb@db/kb kb worker --devices all | "
        "kb worker --database sqlite:////shared/kb.sqlite --devices cpu --once --json"
    )(worker)


def worker(
    database: str | None = typer.Option(
        None,
        help="URL; KB_DATABASE, which no list of processes shows, or the home's own without it.",
    ),
    devices: str = typer.Option(
        "auto", help="auto, all, or names: cpu, cuda, cuda:1; a process for each."
    ),
    once: bool = typer.Option(False, "--once", help="End when nothing is left to judge."),
    lease: float = typer.Option(
        60.0, min=1, help="Seconds of silence that cost a worker its work."
    ),
    drift: float | None = typer.Option(
        None,
        min=0.01,
        help="Nothing is timed where known kernels differ by more than this share; 0.1 on GPUs, 0.5 on processors.",
    ),
    recalibrate: bool = typer.Option(
        False, "--recalibrate", help="Take the known kernels' times of now as this device's own."
    ),
    prompts: bool = typer.Option(
        False,
        "--prompts",
        help="Judge nothing: answer prompts of `model: {provider: workers}` with KB_MODEL's model.",
    ),
    json: bool = JSON,
) -> None:
    """Judge candidates of `kb evolve --workers`, or answer prompts, until Ctrl-C or SIGTERM."""
    from kb.config import Home
    from search.work.devices import chosen_devices
    from search.work.pools import WorkerOptions

    home = Home.find().make()
    url = database or home.database_url
    options = WorkerOptions(database=url, home=str(home.root), lease=lease, drift=drift, once=once)
    if prompts:
        raise typer.Exit(_answer(options, as_json=json))
    chosen = chosen_devices(devices)
    if len(chosen) == 1:
        code = _serve(chosen[0], options, recalibrate=recalibrate, as_json=json)
    else:
        code = _supervise(chosen, options, recalibrate=recalibrate)
    raise typer.Exit(code)


def _serve(device: str, options: WorkerOptions, *, recalibrate: bool, as_json: bool) -> int:
    """Be the worker of one device."""
    from kb.database import open_url
    from search.work.devices import reserve

    kind = reserve(device)
    engine = open_url(options.database, "--database")
    made = _make(engine, kind, options, recalibrate=recalibrate, as_json=as_json)
    stopped = _stopping(made.stop)
    tally = made.run(once=options.once)
    engine.dispose()
    _print({"end": "stopped" if stopped else "done", **asdict(tally)}, as_json=as_json)
    return INTERRUPTED if stopped else 0


def _answer(options: WorkerOptions, *, as_json: bool) -> int:
    """Answer prompts with the model that the environment names."""
    from kb.app.mailbox import Mail
    from kb.app.models import make_model, model_settings
    from kb.database import open_url
    from kb.errors import ConfigError
    from search.task import TaskFile
    from search.work.prompts import PromptQueue, PromptWorker

    named = model_settings(TaskFile(reference="none"))
    if named is None:
        raise ConfigError("--prompts: expected a model, found none: set KB_MODEL and KB_BASE_URL")
    engine = open_url(options.database, "--database")
    made = PromptWorker(
        PromptQueue(engine, lease=options.lease), make_model(named, Mail()), say=say
    )
    stopped = _stopping(made.stop)
    made.run(once=options.once)
    engine.dispose()
    counts = {name: getattr(made, name) for name in ("answered", "failed", "given_back", "lost")}
    kinds = {name: count for name, count in counts.items() if count}
    _print({"end": "stopped" if stopped else "done", "kinds": kinds}, as_json=as_json)
    return INTERRUPTED if stopped else 0


def _stopping(stop: Callable[[], None]) -> list[int]:
    """Have Ctrl-C and SIGTERM call `stop`, and end the process the second time; return those that came."""
    stopped: list[int] = []

    def note(number: int, _frame: object) -> None:
        if stopped:  # it waits for a database that is away
            raise KeyboardInterrupt
        stopped.append(number)
        stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, note)
    return stopped


def _make(
    engine: Engine, kind: str, options: WorkerOptions, *, recalibrate: bool, as_json: bool
) -> JudgingWorker:
    from search.judging.spool.judge_process import JudgeProcess
    from search.work.calibration import Calibrations
    from search.work.queue import WorkQueue
    from search.work.worker import JudgingWorker

    cache = Path(options.home) / "cache"
    return JudgingWorker(
        WorkQueue(engine, lease=options.lease),
        lambda tick: JudgeProcess(kind, cache, say, tick),
        Calibrations(engine, tolerance=options.drift),
        say=say,
        report=lambda line: _print(line, as_json=as_json),
        recalibrate=recalibrate,
    )


def _supervise(devices: list[str], options: WorkerOptions, *, recalibrate: bool) -> int:
    """Keep a worker alive on each of several devices."""
    from search.work.pools.local import LocalPool

    stopped: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _frame: stopped.append(number))
    pool = LocalPool(devices, options)
    pool.start(recalibrate=recalibrate)
    try:
        while not stopped and (pool.running or not options.once):
            for line in pool.tend():
                say(line)
            time.sleep(0.2)
        code = pool.code  # before those that run are ended
    finally:
        pool.close()
    return INTERRUPTED if stopped else code


def _print(values: Mapping[str, Any], *, as_json: bool) -> None:
    typer.echo(json_lines.dumps(values) if as_json else _text(values))


def _text(values: Mapping[str, Any]) -> str:
    if "end" in values:
        counts = ", ".join(f"{count} {kind}" for kind, count in values["kinds"].items())
        return f"{values['end']}: {counts or 'nothing to do'}".replace("_", " ")
    kind = str(values["kind"]).replace("_", " ")
    return (
        f"{values['job'][:16]}  {kind:<12} {values['seconds']:6.1f} s  {values['detail']}".rstrip()
    )
