"""Results to standard output, progress to standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from kb.progress import Progress

JSON = typer.Option(False, "--json", help="Print JSON for programs.")


def print_json(value: object) -> None:
    """Print `value` as JSON to standard output."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def say(line: str) -> None:
    """Print one line of progress."""
    typer.echo(line, err=True)


def console(*, stderr: bool = False) -> Console:
    """Return a rich console; widths follow the terminal, plain text elsewhere."""
    from rich.console import Console

    if stderr or sys.stdout.isatty():
        return Console(stderr=stderr, highlight=False)
    return Console(highlight=False, width=120, no_color=True)


@contextmanager
def steps() -> Iterator[Progress]:
    """Show the progress of long work on standard error."""
    if not sys.stderr.isatty():
        last = [""]

        def tell(what: str, done: float | None = 0, total: float | None = 0) -> None:  # noqa: ARG001 - bars are for terminals
            if what != last[0]:
                last[0] = what
                say(f"… {what}")

        yield tell
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    screen = console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    bars = Bars(
        *columns, TimeElapsedColumn(), console=screen, transient=True, redirect_stdout=False
    )
    with bars:
        task = bars.add_task("", total=None)

        def show(what: str, done: float | None = 0, total: float | None = 0) -> None:
            bars.update(task, description=what, completed=done, total=total or None)

        yield show


def time_text(seconds: float) -> str:
    """Return seconds in the unit that people would use."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def ratio_text(ratio: Mapping[str, float]) -> str:
    """Return a speed-up with its interval."""
    return f"{ratio['ratio']:.2f}x ({ratio['low']:.2f} to {ratio['high']:.2f})"
