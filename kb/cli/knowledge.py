"""Commands around the knowledge base: init, search, ideas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from kb.cli.output import JSON, console, print_json, steps
from kb.config import Home

if TYPE_CHECKING:
    from kb.types import Hit


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.command(epilog="Example: kb init")(init)
    app.command(epilog='Example: kb search "shared memory bank conflicts" --target h100 --limit 3')(
        search
    )
    app.command(epilog="Example: kb ideas --json")(ideas)


def init(json: bool = JSON) -> None:
    """Make the data folder (.kb here, or KB_HOME) and index the shipped documents."""
    from kb.knowledge import open_knowledge

    home = Home.find().make()
    with steps() as progress:
        knowledge = open_knowledge(home, progress)
    stats = knowledge.store.stats()
    if json:
        print_json({"home": str(home.root), **stats})
    else:
        typer.echo(f"{home.root}: " + ", ".join(f"{value} {key}" for key, value in stats.items()))


def search(
    question: str = typer.Argument(..., help="What you want to know."),
    target: str | None = typer.Option(None, help="A target, e.g. h100: its knowledge first."),
    language: str | None = typer.Option(None, help="A language, e.g. triton."),
    kind: list[str] = typer.Option([], help="Only this kind: idea, target, guide, … (repeatable)."),
    limit: int = typer.Option(8, min=1, max=100, help="Most passages to print."),
    json: bool = JSON,
) -> None:
    """Find the passages that answer a question, best first."""
    from kb.cli.questions import ask

    with steps() as progress:
        hits = ask(Home.find().make(), question, target, language, tuple(kind), limit, progress)
    if json:
        print_json([_hit(hit) for hit in hits])
        return
    for place, hit in enumerate(hits, start=1):
        note = "  [outside the scope asked for]" if hit.widened else ""
        typer.echo(f"{place}. {hit.passage.section}  ({hit.passage.document}){note}")
        for line in hit.passage.text.strip().splitlines():
            typer.echo(f"   {line}")
        typer.echo("")
    if not hits:
        typer.echo("nothing found")


def _hit(hit: Hit) -> dict[str, Any]:
    from dataclasses import asdict

    passage = hit.passage
    return {
        "text": passage.text,
        "document": passage.document,
        "section": passage.section,
        "kind": passage.kind,
        "scope": {key: list(value) for key, value in asdict(passage.scope).items() if value},
        "score": hit.score,
        "dense_rank": hit.dense_rank,
        "lexical_rank": hit.lexical_rank,
        "widened": hit.widened,
    }


def ideas(json: bool = JSON) -> None:
    """List the ideas: how often each was retrieved and tried, on what, and what it gained."""
    from kb.cli.history import idea_histories

    rows = idea_histories(Home.find())
    if json:
        print_json(rows)
        return
    from rich.table import Table

    table = Table("idea", "category", "retrieved", "tried", "won", "best gain", "on", box=None)
    for row in rows:
        best = f"{row['best']:.2f}x" if row["best"] else ""
        counts = (str(row["retrieved"]), str(row["tried"]), str(row["won"]))
        table.add_row(row["idea"], row["category"], *counts, best, ", ".join(row["tasks"]))
    console().print(table)
