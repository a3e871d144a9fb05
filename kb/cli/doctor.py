"""kb doctor: what works on this machine, what does not, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from kb.cli.render.output import JSON, print_json
from kb.config import Home
from kb.errors import ConfigError

if TYPE_CHECKING:
    from kb.app.doctor.finding import CheckResult

CHEATS = typer.Option(
    False,
    "--cheats",
    help="Instead, judge candidates that cheat, that are honest and that break; exit code 1 if one gets away.",
)
ONLY = typer.Option(
    [], "--only", metavar="GLOB", help="With --cheats: only these, e.g. 'cheats/cached_*'."
)


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command(epilog="Example: kb doctor --cheats")(doctor)


def doctor(cheats: bool = CHEATS, only: list[str] = ONLY, json: bool = JSON) -> None:
    """Check the compiler, torch, the target, the sandbox, the embeddings and the model."""
    from dataclasses import asdict

    from kb.app.doctor.checks import examine

    if cheats:
        from kb.cli.cheats import judge_corpus

        judge_corpus(only, json=json)
        return
    if only:
        raise ConfigError(
            f"--only {only[0]}: expected --cheats beside it, found none: add --cheats, or leave it out"
        )
    findings = examine(Home.find())
    if json:
        print_json([asdict(finding) for finding in findings])
    else:
        for finding in findings:
            typer.echo(_line(finding))
    if any(finding.state == "broken" for finding in findings):
        raise typer.Exit(2)


def _line(finding: CheckResult) -> str:
    mark = {"works": "ok  ", "limited": "warn", "broken": "FAIL", "off": "-   "}[finding.state]
    advice = f" → {finding.advice}" if finding.advice else ""
    return f"{mark} {finding.part:<14} {finding.detail}{advice}"
