"""Commands that carry a run from one record to another."""

from __future__ import annotations

from pathlib import Path

import typer

from kb.config import Home


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.command(epilog="Example: kb export softmax-3 -o softmax-3.run.gz")(export)
    app.command(name="import", epilog="Example: kb import examples/runs/causal-attention-1.run.gz")(
        import_run
    )


def export(
    run: str = typer.Argument(..., help="A run's name, as `kb runs` lists it."),
    output: Path | None = typer.Option(None, "-o", "--output", help="File; else RUN.run.gz here."),
) -> None:
    """Write a run with its prompts, answers, sources and outcomes to one file."""
    from kb.database import open_engine
    from search.runs.export import write_run
    from search.runs.storage import Storage

    path = output or Path(f"{run}.run.gz")
    rows = write_run(Storage(open_engine(Home.find().make())), run, path)
    typer.echo(f"wrote {path}: {rows:,} rows, {path.stat().st_size:,} bytes")


def import_run(
    file: Path = typer.Argument(..., help="What `kb export` wrote. Its answers are believed."),
) -> None:
    """Take up an exported run, to read it (`kb show`, `kb node`) or to replay it."""
    from kb.knowledge import open_tables
    from search.runs.export import read_run
    from search.runs.storage import Storage

    # With the tables of passages, in which what prompts quoted is looked up.
    run = read_run(Storage(open_tables(Home.find())), file)
    typer.echo(f"{run} is on record: kb show {run}, kb replay {run}")
