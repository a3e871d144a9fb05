"""The command that shows what language models cost a run."""

from __future__ import annotations

import typer

from kb.cli.render.output import JSON, console, print_json
from kb.config import Home


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command(name="spending", epilog="Example: kb spending conv2d-1 --json")(show_spending)


def show_spending(
    run: str = typer.Argument(..., help="A run's name, as `kb runs` lists it."),
    json: bool = JSON,
) -> None:
    """Show what each model cost a run: calls, tokens, money, seconds."""
    from kb.app.history import open_run
    from search.runs.spending import spending
    from synth.models.prices import Prices

    home = Home.find()
    rows = spending(open_run(home, run).storage.engine, run)
    if json:
        print_json(rows)
        return
    from rich.table import Table

    currency = Prices.load(home.root).currency
    heads = ("model", "wrote", "calls", "tokens in", "cached", "tokens out", currency, "seconds")
    table = Table(*heads, box=None)
    for row in rows:
        source = "" if row["paid"] else " (from the record)"
        table.add_row(
            row["model"],
            row["role"] + source,
            str(row["calls"]),
            f"{row['tokens_in']:,}",
            f"{row['cached'] or 0:,}",
            f"{row['tokens_out']:,}",
            "no price" if row["cost"] is None else f"{row['cost']:.4f}",
            f"{row['seconds']:.1f}",
        )
    console().print(table)
