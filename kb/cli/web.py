"""`kb serve` and `kb site`: runs in a browser."""

from __future__ import annotations

from pathlib import Path

import typer

from kb.cli.render.output import JSON, print_json, steps
from kb.config import Home
from kb.progress import say

_PORT = 8321


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.command(epilog="Examples: kb serve; kb serve --port 0")(serve)
    app.command(epilog="Examples: kb site out; kb site out conv2d-1 softmax-2")(site)


def browse_hint(run: str) -> str:
    """Return how to look at a run in a browser."""
    from kb.web.text import address

    return f"kb serve, then http://127.0.0.1:{_PORT}/runs/{address(run)}"


def serve(
    host: str = typer.Option(
        "127.0.0.1", help="Address to answer on; another one asks for a token."
    ),
    port: int = typer.Option(_PORT, min=0, max=65535, help="0: any free one."),
    without_token: bool = typer.Option(
        False, "--without-token", help="Let everybody in who reaches the address: they read all."
    ),
) -> None:
    """Show runs, search trees, ideas and knowledge in a browser, until Ctrl-C."""
    from kb.web.serve import serve as answer

    answer(Home.find().make(), host, port, without_token=without_token, say=say)


def site(
    out: Path = typer.Argument(..., help="Folder to write; a new one, or a site written before."),
    runs: list[str] = typer.Argument(None, help="Runs to show; all where none are named."),
    json: bool = JSON,
) -> None:
    """Write the pages of `kb serve` as files, for any static server or for the file system."""
    from kb.web.site import write_site
    from kb.web.sources import open_sources

    with steps() as progress:
        made = write_site(open_sources(Home.find().make()), out, runs or (), progress)
    if json:
        print_json({"folder": str(out), "pages": made.pages, "bytes": made.bytes})
    else:
        typer.echo(f"{made.pages} pages, {made.bytes / 1e6:.1f} MB: open {out / 'index.html'}")
