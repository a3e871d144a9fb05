"""Commands around runs: evolve, resume, runs, show, tree, node, best."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from kb.cli.render.output import JSON, console, print_json, steps
from kb.config import Home, user_path

if TYPE_CHECKING:
    from kb.app.run import Ended

NO_CANDIDATE = 4
INTERRUPTED = 130
RUN = typer.Argument(..., help="A run's name, as `kb runs` lists it.")
TASKS = typer.Argument(
    ..., help="A task file (YAML), or a reference program (.py); several or a folder with --budget."
)
BUDGET = typer.Option(
    None, help="Of all tasks together: N tokens, N minutes or N candidates (see docs/search.md)."
)
SPOOL = typer.Option(
    None, help="Judge elsewhere: a folder that `kb judge FOLDER` serves; over the task's."
)
WORKERS = typer.Option(
    False, "--workers", help="Judge by `kb worker` processes of the same database."
)
RAY = typer.Option(
    None, help="Judge by workers that are started on this Ray cluster: HOST:PORT, auto or local."
)
MAILBOX = typer.Option(
    None, help="Ask by letters in this folder, and wait for answers; over the task's author."
)
PROFILE = typer.Option(
    None, help="timeline, or ncu for hardware counters of parents; over the task's."
)


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.command(
        epilog="Examples: kb evolve examples/conv2d.yaml | kb evolve problem.py --minutes 10 --json"
        " | kb evolve TASKS/ --budget 200000 tokens"
    )(evolve)
    app.command(epilog="Example: kb resume conv2d-1")(resume)
    app.command(name="runs", epilog="Example: kb runs --json")(list_runs)
    app.command(epilog="Example: kb show conv2d-1")(show)
    app.command(epilog="Example: kb tree conv2d-1")(tree)
    app.command(epilog="Example: kb node conv2d-1 7")(node)
    app.command(epilog="Example: kb best conv2d-1 -o fast_conv2d.py")(best)


def evolve(
    task: list[Path] = TASKS,
    budget: str | None = BUDGET,
    author: str | None = typer.Option(None, help="recipes, llm, mailbox or auto; over the task's."),
    rounds: int | None = typer.Option(None, min=1, help="Rounds at most; over the task's."),
    candidates: int | None = typer.Option(None, min=1, help="Candidates at most; over the task's."),
    minutes: float | None = typer.Option(None, min=0.01, help="Minutes at most; over the task's."),
    seed: int | None = typer.Option(None, min=0, help="Seed of the search; over the task's."),
    spool: Path | None = SPOOL,
    workers: bool = WORKERS,
    ray: str | None = RAY,
    mailbox: Path | None = MAILBOX,
    profile: str | None = PROFILE,
    json: bool = JSON,
) -> None:
    """Search for a faster kernel: ideas, implementations, and a judge on this machine."""
    from kb.app.command_line import task_with
    from kb.app.run import evolve as run
    from kb.app.run import notices
    from kb.cli.portfolio import begin, one_task
    from kb.cli.render.progress import Screen

    options: dict[str, Any] = {
        "author": author,
        "rounds": rounds,
        "candidates": candidates,
        "minutes": minutes,
        "seed": seed,
        "spool": None if spool is None else str(user_path(spool).absolute()),
        "workers": workers or ray is not None,
        "mailbox": None if mailbox is None else str(user_path(mailbox).absolute()),
        "profile": profile,
    }
    if budget is not None:
        with workers_on(ray, Home.find().make()):
            begin(task, budget, options, as_json=json)
    loaded = task_with(one_task(task), **options)
    for line in notices(loaded):
        typer.echo(line, err=json)
    home = Home.find().make()
    with steps() as progress, workers_on(ray, home):
        ended = run(home, loaded, progress, Screen)
    _publish(ended, as_json=json)


@contextmanager
def workers_on(ray: str | None, home: Home) -> Iterator[None]:
    """Keep workers on a Ray cluster while a search runs; nothing where none is named."""
    if ray is None:
        yield
        return
    from search.work.pools import WorkerOptions
    from search.work.pools.ray import RayPool, tended

    with tended(RayPool(ray, WorkerOptions(database=home.database_url))):
        yield


def resume(
    run: str = RUN,
    ray: str | None = typer.Option(None, help="As for `kb evolve`."),
    json: bool = JSON,
) -> None:
    """Go on with a run or a portfolio that was interrupted; it ends as an unbroken one would have."""
    from kb.app.run import resume as go_on
    from kb.cli.portfolio import go_on_with
    from kb.cli.render.progress import Screen

    home = Home.find().make()
    with workers_on(ray, home):
        go_on_with(run, as_json=json)
        with steps() as progress:
            announce = partial(typer.echo, err=json)
            ended = go_on(home, run, progress, Screen, announce)
    _publish(ended, as_json=json)


def _publish(ended: Ended, *, as_json: bool) -> NoReturn:
    """Print what a run came to, and leave with its exit code."""
    from kb.app.history import open_run
    from kb.cli.render.run_report import report_text
    from kb.cli.web import browse_hint

    if as_json:
        print_json(ended.report)
    else:
        path = open_run(Home.find(), ended.run).path_to_best()
        typer.echo(report_text(ended.report, path))
        typer.echo(f"  in a browser:   {browse_hint(ended.run)}")
    if ended.interrupted:
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(0 if ended.report["best"] is not None else NO_CANDIDATE)


def list_runs(json: bool = JSON) -> None:
    """List the runs, oldest first."""
    from kb.app.history import run_rows

    rows = run_rows(Home.find())
    if json:
        print_json(rows)
        return
    from rich.table import Table

    table = Table(
        "run", "status", "author", "target", "candidates", "speed-up over eager", box=None
    )
    for row in rows:
        table.add_row(*cells(row))
    console().print(table)


def cells(row: dict[str, Any]) -> tuple[str, ...]:
    """Return a run's cells in the list of runs."""
    gain = f"{row['speedup']:.2f}x" if row["speedup"] else ""
    return row["run"], row["status"], row["author"], row["target"], f"{row['candidates']:d}", gain


def show(run: str = RUN, json: bool = JSON) -> None:
    """Show what a run was asked, what it found, and the ideas that led there."""
    from kb.app.history import open_run
    from kb.cli.render.run_report import report_text

    found = open_run(Home.find(), run)
    if json:
        print_json(found.report())
    else:
        typer.echo(report_text(found.report(), found.path_to_best()))


def tree(run: str = RUN, json: bool = JSON) -> None:
    """Draw the search graph with ideas and speed-ups."""
    from kb.app.history import open_run
    from kb.cli.render.run_report import tree_of

    found = open_run(Home.find(), run)
    if json:
        print_json(found.tree())
    else:
        console().print(tree_of(run, found.settled, found.best_number()))


def node(
    run: str = RUN,
    number: int = typer.Argument(..., min=0, help="The node's number, as `kb tree` shows it."),
    json: bool = JSON,
) -> None:
    """Show one node: idea, prompt with its passages, source, diff to its parent, outcome."""
    from kb.app.history import open_run
    from kb.cli.render.run_report import node_text

    found = open_run(Home.find(), run).node(number)
    if json:
        print_json(found)
    else:
        typer.echo(node_text(found))


def best(
    run: str = RUN,
    output: Path | None = typer.Option(None, "-o", "--output", help="Write to this file."),
    json: bool = JSON,
) -> None:
    """Print or write the run's best source, as a file that runs without kb: with torch, and g++, Triton or nvcc."""
    from kb.app.history import open_run, write_best

    found = open_run(Home.find(), run)
    source, report = found.standalone(), found.report()["best"]
    if output is not None:
        write_best(output, source)
    if json:
        print_json({**report, "source": source, "file": str(output) if output else None})
    elif output is None:
        typer.echo(source)
    else:
        typer.echo(f"wrote {output}")
