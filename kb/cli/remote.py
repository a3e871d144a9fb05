"""Commands for machines apart: judge (where the device is), wheelhouse (where no network is)."""

from __future__ import annotations

from pathlib import Path

import typer

from kb.cli.render.output import JSON, print_json
from kb.progress import say

_PASSED_ON = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.command(context_settings=_PASSED_ON, add_help_option=False)(judge)
    app.command(
        epilog="Examples: kb wheelhouse box --python 3.12 | kb wheelhouse box --judge-only | kb wheelhouse box --check"
    )(wheelhouse)


def judge(context: typer.Context) -> None:
    """Judge what `kb evolve --spool FOLDER` asks for, on this machine; needs only torch."""
    from kb.cli.judge import judge as run

    raise typer.Exit(run(context.args))


def wheelhouse(
    folder: Path = typer.Argument(..., help="Where the wheels go; run again, it goes on."),
    python: str | None = typer.Option(None, help="Python of the other machine, e.g. 3.12."),
    platform: str | None = typer.Option(None, help="Its platform, e.g. manylinux_2_28_x86_64."),
    judge_only: bool = typer.Option(False, "--judge-only", help="Only what kb judge needs."),
    with_: list[str] = typer.Option(
        [], "--with", help="An optional part: triton or cute; more than once."
    ),
    with_torch: bool = typer.Option(False, "--with-torch", help="Torch too (gigabytes)."),
    constraints: Path | None = typer.Option(None, help="A file of pins for pip."),
    check: bool = typer.Option(False, "--check", help="Only compare a folder with its hashes."),
    json: bool = JSON,
) -> None:
    """Fetch all that a machine without a network needs to install kb, into one folder."""
    from kb.wheelhouse import build as house

    if check:
        manifest = house.check(folder)
    else:
        wanted = house.Contents(
            place=house.choose_place(python, platform),
            judge_only=judge_only,
            extras=tuple(dict.fromkeys(with_)),
            torch=with_torch,
            constraints=constraints,
        )
        manifest = house.build(folder, wanted, say)
    if json:
        print_json(manifest)
    else:
        size = f"{manifest['bytes'] / 1e6:.0f} MB in {len(manifest['files'])} wheels"
        typer.echo(f"{folder}: {size}, {'as its hashes say' if check else 'run install.sh there'}")
