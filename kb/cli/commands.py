"""The commands, and the place where the parts are put together.

Commands import what they need when they are called, so that ``kb --help`` answers at once.
"""

from __future__ import annotations

import typer

from kb import __version__
from kb.cli import (
    bench,
    doctor,
    dry,
    exports,
    mcp,
    measure,
    prompt,
    remote,
    replay,
    runs,
    spending,
    web,
    worker,
)
from kb.cli.knowledge import check, effects, ideas, ingest, lessons, read, search
from kb.cli.render.output import Commands

EXIT_CODES = """
Exit codes: 0 done; 1 a bug in kb, or findings of check and doctor --cheats; 2 something you can mend, said in one line; 3 the offline author has
no recipe for the task; 4 no candidate passed; 5 a replay differs from its
record; 130 interrupted.
"""

app = typer.Typer(
    name="kb",
    cls=Commands,
    help="Make compute kernels fast: a knowledge base, ideas, implementations, and a judge.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # its help would cost a third of a second of imports
    context_settings={"help_option_names": ["-h", "--help"]},
)
ideas.register(app)
ingest.register(app)
search.register(app)
read.register(app)
effects.register(app)
measure.register(app)
bench.register(app)
runs.register(app)
replay.register(app)
spending.register(app)
prompt.register(app)
lessons.register(app)
check.register(app)
dry.register(app)
remote.register(app)
worker.register(app)
mcp.register(app)
exports.register(app)
web.register(app)
doctor.register(app)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"kb {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Read the options that stand before the command."""
