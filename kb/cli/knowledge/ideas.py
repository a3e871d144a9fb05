"""Commands around the knowledge base: init, ideas."""

from __future__ import annotations

import typer

from kb.cli.render.output import JSON, console, print_json, steps
from kb.config import Home


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.command(epilog="Example: kb init")(init)
    app.command(epilog="Example: kb ideas --json")(ideas)


def init(json: bool = JSON) -> None:
    """Make the data folder (.kb here, or KB_HOME) and index the shipped documents."""
    from kb.knowledge import open_knowledge

    home = Home.find().make()
    with steps() as progress:
        knowledge = open_knowledge(home, progress)
        knowledge.derived.refresh(progress)
    stats = knowledge.store.stats()
    if json:
        print_json({"home": str(home.root), **stats})
    else:
        typer.echo(f"{home.root}: " + ", ".join(f"{value} {key}" for key, value in stats.items()))


def ideas(json: bool = JSON) -> None:
    """List the ideas: how often each was retrieved and tried, what it gained, what was measured."""
    from kb.app.history import idea_histories, measured_text

    rows = idea_histories(Home.find())
    if json:
        print_json(rows)
        return
    from rich.table import Column, Table

    heads = ("category", "retrieved", "tried", "won", "best gain", "on", "measured")
    table = Table(Column("idea", overflow="fold"), *heads, box=None)
    for row in rows:
        best = f"{row['best']:.2f}x" if row["best"] else ""
        counts = (str(row["retrieved"]), str(row["tried"]), str(row["won"]))
        tasks, measured = ", ".join(row["tasks"]), measured_text(row["measured"])
        table.add_row(row["idea"], row["category"], *counts, best, tasks, measured)
    console().print(table)
