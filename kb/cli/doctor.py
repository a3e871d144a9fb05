"""kb doctor: what works on this machine, what does not, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from kb.cli.output import JSON, print_json
from kb.config import Home

if TYPE_CHECKING:
    from kb.cli.checks import Finding


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command(epilog="Example: kb doctor --json")(doctor)


def doctor(json: bool = JSON) -> None:
    """Check the compiler, torch, the target, the sandbox, the embeddings and the model."""
    from dataclasses import asdict

    from kb.cli.checks import examine

    findings = examine(Home.find())
    if json:
        print_json([asdict(finding) for finding in findings])
    else:
        for finding in findings:
            typer.echo(_line(finding))
    if any(finding.state == "broken" for finding in findings):
        raise typer.Exit(2)


def _line(finding: Finding) -> str:
    mark = {"works": "ok  ", "limited": "warn", "broken": "FAIL", "off": "-   "}[finding.state]
    advice = f" → {finding.advice}" if finding.advice else ""
    return f"{mark} {finding.part:<14} {finding.detail}{advice}"
