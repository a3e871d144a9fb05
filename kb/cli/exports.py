"""Commands that carry a run from one record to another."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from kb.cli.render.output import JSON, print_json
from kb.config import Home

if TYPE_CHECKING:
    from search.runs.storage import Storage


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.command(epilog="Example: kb export softmax-3 -o softmax-3.run.gz")(export)
    app.command(name="import", epilog="Example: kb import examples/runs/causal-attention-1.run.gz")(
        import_run
    )


def export(
    run: str = typer.Argument(..., help="A run's name, as `kb runs` lists it."),
    output: Path | None = typer.Option(None, "-o", "--output", help="File; else RUN.run.gz here."),
    json: bool = JSON,
) -> None:
    """Write a run with its prompts, answers, sources and outcomes to one file."""
    from kb.database import open_engine
    from search.runs.export import write_run
    from search.runs.storage import Storage

    path = output or Path(f"{run}.run.gz")
    rows = write_run(Storage(open_engine(Home.find().make())), run, path)
    size = path.stat().st_size
    if json:
        print_json({"run": run, "file": str(path), "rows": rows, "bytes": size})
    else:
        typer.echo(f"wrote {path}: {rows:,} rows, {size:,} bytes")


def import_run(
    file: Path = typer.Argument(..., help="What `kb export` wrote. Its answers are believed."),
    trust: bool = typer.Option(
        False, "--trust", help="Its reference program may be run here, with your rights."
    ),
    json: bool = JSON,
) -> None:
    """Take up an exported run, to read it (`kb show`, `kb node`) or to replay it."""
    from kb.knowledge import open_tables
    from search.runs.export import read_run
    from search.runs.storage import Storage

    # With the tables of passages, in which what prompts quoted is looked up.
    storage = Storage(open_tables(Home.find()))
    run = read_run(storage, file, trusted=trust, look=_show)
    if json:
        print_json({"run": run, "trusted": trust})
        return
    again = f"kb replay {run}" if trust else f"kb replay {run} --trust (which runs its program)"
    typer.echo(f"{run} is on record: kb show {run}, {again}")


def _show(storage: Storage, run: str) -> None:
    """Show a run as the commands do that read runs: one that cannot be shown would break them all."""
    from kb.app.history import Run, run_line
    from kb.cli.render.run_report import report_text, tree_of
    from kb.cli.runs import cells
    from search.runs.report import idea_path, reported
    from search.runs.spending import spending
    from search.won_or_lost import gains

    found = Run(row=storage.run(run), graph=storage.record(run).graph, storage=storage)
    best = found.best_number()
    path = [] if best is None else idea_path(found.settled, best)
    cells(run_line(storage, found.row))
    report_text(found.report(), path)
    tree_of(run, found.settled, best)
    list(gains(found.graph.attempts(), reported(found.row.report or {})))
    spending(storage.engine, run)
