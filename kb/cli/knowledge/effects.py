"""`kb effects`: what the use of each idea and passage gained, and where."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import typer

from kb.cli.render.output import JSON, console, print_json
from kb.config import Home
from kb.errors import ConfigError

if TYPE_CHECKING:
    from kb.retrieval.effect_store import Effects


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command(epilog="Examples: kb effects; kb effects cpu-rows-simd --json")(effects)


def effects(
    name: str | None = typer.Argument(None, help="An idea, or a document: where it gained what."),
    json: bool = JSON,
) -> None:
    """List what the use of each idea and passage gained in runs, best first: anywhere, or by place."""
    from kb.knowledge import open_tables
    from kb.retrieval.effect_store import Effects, by_place

    known = Effects(open_tables(Home.find().make()), time.time())
    if name is None:
        rows, title = every(known), "subject"
    else:
        rows, title = by_place(known, find(known.subjects(), name)), "family, device, bottleneck"
    if json:
        print_json(rows)
        return
    if not rows:
        typer.echo("nothing was measured yet: `kb evolve TASK` measures")
        return
    from rich.table import Table

    table = Table(title, "retrieved", "won", "even", "lost", "failed", "expected gain", box=None)
    for row in rows:
        counts = (str(row[key]) for key in ("retrieved", "won", "even", "lost", "failed"))
        gain = f"{row['gain']:.2f}x ({row['low']:.2f} to {row['high']:.2f})"
        table.add_row(row["name"], *counts, gain)
    console().print(table)


def every(known: Effects) -> list[dict[str, Any]]:
    """Return one object a subject, the best expected gain first."""
    from kb.retrieval.effect_estimate import Where
    from kb.retrieval.effect_store import row

    subjects = known.subjects()
    found = known.of(subjects, Where())
    rows = [row(subject, found[subject]) for subject in subjects]
    return sorted(rows, key=lambda one: (-one["gain"], one["name"]))


def find(subjects: Sequence[str], name: str) -> str:
    """Return the subject that a user means by a document's name or its stem.

    Raises:
        ConfigError: none or several are meant.
    """
    if name in subjects:
        return name
    meant = [one for one in subjects if PurePosixPath(one).stem.rpartition(":")[2] == name]
    if len(meant) == 1:
        return meant[0]
    listed = ", ".join(_some(meant or subjects)) or "none"
    raise ConfigError(
        f"expected one of what was measured, found {'several' if meant else 'none'} called {name!r}: "
        f"known are {listed} (kb effects lists all)"
    )


def _some(names: Iterable[str]) -> list[str]:
    return list(names)[:5]
