"""`kb mcp`: a program that speaks the Model Context Protocol works with kb as a language model does."""

from __future__ import annotations

import typer

from kb.config import Home
from kb.errors import ConfigError
from kb.progress import say


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command(
        name="mcp",
        epilog='Example, in the settings of a program: {"command": "kb", "args": ["mcp"]}',
    )(serve)


def serve() -> None:
    """Serve the Model Context Protocol on standard input and output, until the input ends.

    Search the knowledge base, get a task's brief and history, submit candidates and read verdicts.
    """
    try:
        from kb.app.mcp.tools import make_server
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise ConfigError(
            "kb mcp needs the package mcp, which is not installed: pip install 'kernel-kb[mcp]'"
        ) from error
    home = Home.find().make()
    say(f"kb mcp: serving {home.root} on standard input and output")
    make_server(home).run("stdio")
