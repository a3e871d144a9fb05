"""The command that shows what language models cost, and caps it for all runs of a database."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from kb.cli.render.output import JSON, console, print_json
from kb.config import Home

if TYPE_CHECKING:
    from collections.abc import Sequence

    from search.runs.caps import CapState, DatabaseCaps


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command(
        name="spending",
        epilog="Examples: kb spending conv2d-1 --json | kb spending --cap '5 money a day'",
    )(show_spending)


def show_spending(
    run: str | None = typer.Argument(None, help="A run's name; without it, all runs together."),
    cap: list[str] = typer.Option(
        [],
        help="Cap all runs of the database: '5 money a day', '1000000 tokens'; may be repeated.",
    ),
    uncap: list[str] = typer.Option(
        [], help="Take a cap away: 'money a day', 'tokens'; may be repeated."
    ),
    json: bool = JSON,
) -> None:
    """Show what each model cost: calls, tokens, money, seconds; cap what all runs may spend."""
    from kb.app.history import open_run
    from kb.database import open_engine
    from search.runs.caps import DatabaseCaps
    from search.runs.spending import spending

    home = Home.find()
    engine = open_engine(home) if run is None else open_run(home, run).storage.engine
    caps = DatabaseCaps(engine)
    change_caps(caps, cap, uncap)
    rows, states = spending(engine, run), [] if run is not None else caps.states()
    if json:
        told = [{**asdict(one.cap), "spent": one.spent, "held": one.held} for one in states]
        print_json(rows if run is not None else {"models": rows, "caps": told})
        return
    _print(home, rows, states)


def change_caps(caps: DatabaseCaps, wanted: Sequence[str], unwanted: Sequence[str]) -> None:
    """Set the wanted caps and take the unwanted away, or none of them where a text is no cap.

    Raises:
        ConfigError: a text is no cap.
    """
    from kb.errors import ConfigError
    from search.runs.caps import DatabaseCap, parse_cap

    gone, made = [parse_cap(text) for text in unwanted], []
    for text in wanted:
        unit, period, amount = parse_cap(text)
        if amount is None:
            raise ConfigError(f"--cap: expected an amount, found {text!r}: write '5 {text}'")
        made.append(DatabaseCap(unit=unit, period=period, amount=amount))
    for unit, period, _ in gone:
        caps.remove(unit, period)
    for one in made:
        caps.put(one)


def _print(home: Home, rows: Sequence[dict[str, Any]], states: Sequence[CapState]) -> None:
    from rich.table import Table

    from search.runs.caps import figure
    from synth.models.prices import Prices

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
    for one in states:
        spent, held = (figure(one.cap.unit, amount) for amount in (one.spent, one.held))
        typer.echo(f"cap of {one.cap}: {spent} spent, {held} put aside")
