"""`kb facts`: figures of devices that documents gave, for the user to accept or to reject."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from kb.cli.render.output import JSON, print_json
from kb.config import Home

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingest.figures.review import Ledger, Line

_UNITS = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"))
_NUMBERS = typer.Argument(..., min=1, help="Numbers that `kb facts` lists.")

facts = typer.Typer(
    help="List figures of devices that tables of ingested documents gave: proposals, until accepted.",
    epilog="Examples: kb facts; kb facts --all --json; kb facts accept 3 4; kb facts reject 5",
    invoke_without_command=True,
)


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.add_typer(facts, name="facts")


@facts.callback()
def listing(
    context: typer.Context,
    every: bool = typer.Option(
        False, "--all", help="Also what the records say already, and what was decided."
    ),
    target: str | None = typer.Option(None, help="Only figures of this target."),
    json: bool = JSON,
) -> None:
    """List figures of devices that tables of ingested documents gave: proposals, until accepted."""
    if context.invoked_subcommand is not None:
        return
    lines = [line for line in _ledger().lines() if target in (None, line.target)]
    shown = [line for line in lines if every or _is_open(line)]
    if json:
        print_json([asdict(line) for line in shown])
        return
    for line in shown:
        for text in _texts(line):
            typer.echo(text)
    typer.echo(_summary(lines))


@facts.command(epilog="Example: kb facts accept 3 4")
def accept(
    numbers: list[int] = _NUMBERS,
    replace: bool = typer.Option(False, "--replace", help="Also over another value of the record."),
) -> None:
    """Take figures into your targets (targets/ in KB_HOME); no record is changed by itself."""
    from datetime import date

    for line in _ledger().accept(numbers, replace=replace, today=date.today()):
        typer.echo(
            f"accepted: {line.target} {line.field} = {amount(line.field, line.value)}  ({line.source})"
        )


@facts.command(epilog="Example: kb facts reject 5")
def reject(numbers: list[int] = _NUMBERS) -> None:
    """Set figures aside, or take accepted ones out again."""
    for line in _ledger().reject(numbers):
        typer.echo(
            f"rejected: {line.target} {line.field} = {amount(line.field, line.value)}  ({line.source})"
        )


def amount(field: str, value: float) -> str:
    """Return a figure with a prefix where it is large; sizes on the chip are powers of 1024."""
    if field.startswith(("caches.", "limits.shared_memory_per")):
        for size, unit in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
            if value >= size:
                return f"{value / size:.6g} {unit}"
    for scale, prefix in _UNITS:
        if value >= scale:
            return f"{value / scale:.6g} {prefix}"
    return f"{value:.6g}"


def _ledger() -> Ledger:
    from ingest.figures.review import Ledger
    from kb.knowledge import open_tables

    home = Home.find().make()
    ledger = Ledger(home, open_tables(home))
    ledger.refresh()
    return ledger


def _is_open(line: Line) -> bool:
    return line.state == "proposed" and line.standing != "agrees"


def _texts(line: Line) -> list[str]:
    state = line.standing if line.state == "proposed" else line.state
    texts = [
        f"{line.number:>4}. {line.target} {line.field} = {amount(line.field, line.value)}  [{state}]",
        f"      {line.source}",
    ]
    if line.note:
        texts.append(f"      note: {line.note}")
    if line.standing == "conflicts" and line.known is not None:
        texts.append(f"      the record has {amount(line.field, line.known)}: {line.known_from}")
    return texts


def _summary(lines: Sequence[Line]) -> str:
    waiting = [line for line in lines if _is_open(line)]
    conflicts = sum(line.standing == "conflicts" for line in waiting)
    agree = sum(line.standing == "agrees" for line in lines)
    decided = sum(line.state != "proposed" for line in lines)
    return (
        f"{len(waiting)} to decide ({conflicts} against the record), {agree} agree with the records, "
        f"{decided} decided"
    )
