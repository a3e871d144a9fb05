"""Results to standard output, progress to standard error."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from kb.progress import say
from kb.units import long_text
from kb.visible import visible

if TYPE_CHECKING:
    from rich.console import Console

    from kb.progress import Progress

JSON = typer.Option(False, "--json", help="Print JSON for programs.")


class Commands(TyperGroup):
    """Lists the commands with their whole first sentence, where the parent class cuts it off."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a line or more for each command."""
        known = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        rows = [(name, one.get_short_help_str(limit=500)) for name, one in known if one is not None]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def print_json(value: object) -> None:
    """Print `value` as JSON to standard output."""
    typer.echo(json_text(value))


def json_text(value: object) -> str:
    """Return `value` as the commands print JSON."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def console(*, stderr: bool = False) -> Console:
    """Return a rich console; widths follow the terminal, plain text elsewhere.

    Square brackets stay what they are: titles of ideas and names of shapes have some.
    """
    from rich.console import Console

    if stderr or sys.stdout.isatty():
        return Console(stderr=stderr, highlight=False, markup=False)
    return Console(highlight=False, markup=False, width=120, no_color=True)


@contextmanager
def steps() -> Iterator[Progress]:
    """Show the progress of long work on standard error, with an estimate where it can be told."""
    if not sys.stderr.isatty():
        yield Lines(say, time.monotonic)
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.progress import Progress as Bars

    screen = console(stderr=True)
    bars = Bars(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=screen,
        transient=True,
        redirect_stdout=False,
    )
    with bars:
        task = bars.add_task("", total=None)
        last = [""]

        def show(what: str, done: float | None = 0, total: float | None = 0) -> None:
            if what != last[0]:  # an estimate is about one piece of work
                last[0] = what
                bars.reset(task, description=visible(what), total=total or None)
            bars.update(task, completed=done, total=total or None)

        yield show


class Lines:
    """Progress where no bar can be drawn: a line a piece of work, and one now and then within it.

    Args:
        write: takes a line.
        clock: returns seconds.
    """

    EVERY = 10.0  # seconds

    def __init__(self, write: Callable[[str], None], clock: Callable[[], float]) -> None:
        self._write = write
        self._clock = clock
        self._what = ""
        self._began = self._told = 0.0
        self._start = 0.0

    def __call__(self, what: str, done: float | None = 0, total: float | None = 0, /) -> None:
        """Take note of one step."""
        now = self._clock()
        if what != self._what:
            self._what, self._began, self._told, self._start = what, now, now, done or 0.0
            self._write(f"… {what}")
        elif done and total and now - self._told >= self.EVERY:
            self._told = now
            gone = done - self._start
            left = (now - self._began) / gone * (total - done) if gone > 0 else None
            about = "" if left is None else f", about {long_text(left)} left"
            self._write(f"… {what}: {done:,.0f} of {total:,.0f}{about}")
