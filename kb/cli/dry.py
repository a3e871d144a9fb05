"""kb dry: compile one candidate for GPUs that are not here, and check its answers."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from kb.cli.render.output import JSON, console, print_json, steps
from kb.config import Home
from kb.progress import say

if TYPE_CHECKING:
    from search.judging.dryrun.architecture import Architecture
    from search.judging.dryrun.check import DryFinding
    from search.outcome import Outcome

FAILED = 4
EPILOG = (
    "Example: kb dry answer.py --reference examples/conv2d.yaml --arch sm_90 --arch gfx942. "
    "Exit codes: 0 it compiles everywhere and no wrong answer was seen; 4 it does not; 2 something you "
    "can mend."
)
REFERENCE = typer.Option(
    ..., "--reference", "-r", help="The reference program (.py), or a task file (YAML)."
)
ARCH = typer.Option(
    [], "--arch", "-a", help="An architecture (sm_90, gfx942) or a GPU target (h100); repeatable."
)
EVERY = typer.Option(False, "--all", help="Every architecture that is known; so without --arch.")
THOROUGH = typer.Option(False, "--thorough", help="Check answers on every distribution of inputs.")


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command(epilog=EPILOG)(dry)


def dry(
    file: Path = typer.Argument(..., help="A file that defines ModelNew."),
    reference: Path = REFERENCE,
    arch: list[str] = ARCH,
    every: bool = EVERY,
    thorough: bool = THOROUGH,
    json: bool = JSON,
) -> None:
    """Compile a candidate for GPUs that are not here: registers, shared memory, spills, answers."""
    chosen = _architectures(() if every else tuple(arch))
    finding = _examine(file, reference, chosen, thorough=thorough)
    outcomes = _outcomes(finding, chosen)
    say("nothing was timed: these devices are not here")
    if json:
        print_json(_values(file, reference, finding, outcomes))
    else:
        _show(outcomes, finding)
    good = all(outcome.kind == "checked" for outcome in outcomes.values())
    raise typer.Exit(0 if good else FAILED)


def _architectures(names: tuple[str, ...]) -> tuple[Architecture, ...]:
    from kb.records.targets import load_targets
    from search.judging.dryrun.architecture import choose_architectures, known_architectures

    documents = load_targets(Home.find())
    if not names:
        return tuple(known_architectures(documents).values())
    return choose_architectures(names, documents)


def _examine(
    file: Path, reference: Path, chosen: tuple[Architecture, ...], *, thorough: bool
) -> DryFinding:
    from kb.errors import ConfigError
    from search.judging.dryrun.check import DryCheck
    from search.judging.limits import Limits
    from search.reference import load_problem
    from search.task import load_task

    try:
        source = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {file}: {error}: name a Python file") from error
    task = load_task(reference)
    with steps() as progress:
        progress("loading the reference")
        problem = load_problem(task)
        desk = DryCheck(
            problem,
            seed=task.settings.search.seed,
            folder=Home.find().make().root / "cache" / "dry",
            limits=Limits(),
        )
        try:
            for note in desk.prepare(progress).notes:
                say(note)
            progress(f"compiling for {', '.join(a.name for a in chosen)}")
            return desk.examine(source, chosen, thorough=thorough)
        finally:
            desk.close()


def _outcomes(finding: DryFinding, chosen: tuple[Architecture, ...]) -> dict[str, Outcome]:
    from search.judging.dryrun.judge import outcome_of

    return {a.name: outcome_of(finding, a.name) for a in chosen}


def _values(
    file: Path, reference: Path, finding: DryFinding, outcomes: dict[str, Outcome]
) -> dict[str, Any]:
    return {
        "file": str(file),
        "reference": str(reference),
        "timed": False,
        "answers": _answers(finding),
        "architectures": {name: asdict(outcome) for name, outcome in outcomes.items()},
    }


def _answers(finding: DryFinding) -> str:
    from search.sandbox.faults import Fault

    answers = finding.answers
    if isinstance(answers, Fault):
        outcome = answers.outcome
        return f"{outcome.kind.replace('_', ' ')}: {getattr(outcome, 'reason', '')}"
    if answers.unchecked:
        return f"not checked: {answers.unchecked}"
    return (
        f"right in the interpreter: error {answers.max_error:.2g} of {answers.allowed_error:.2g} "
        "allowed"
    )


def _show(outcomes: dict[str, Outcome], finding: DryFinding) -> None:
    from rich.table import Table
    from rich.text import Text

    from search.sandbox.faults import Fault

    columns = ("for", "kernel", "launches", "registers", "shared", "spills", "stack", "warps")
    table = Table(*columns, "occupancy", "limited by", box=None)
    for name in outcomes:
        built = finding.built[name]
        if isinstance(built, Fault):
            table.add_row(name, Text(built.outcome.kind.replace("_", " "), style="red"))
            continue
        for kernel in built.kernels:
            figures = (
                kernel.launches, kernel.registers, kernel.shared, kernel.spills, kernel.stack,
                kernel.warps,
            )  # fmt: skip
            limits = ", ".join(kernel.limited_by)
            occupancy = f"{kernel.occupancy:.0%}"
            table.add_row(name, kernel.name, *map(str, figures), occupancy, limits)
    console().print(table)
    told: dict[str, list[str]] = {}
    for name, outcome in outcomes.items():
        for kernel in getattr(outcome, "kernels", ()):
            for loss in kernel.losses:
                told.setdefault(f"the compiler warns of {kernel.name}: {loss}", []).append(name)
    for name, built in finding.built.items():
        notes = (getattr(built.outcome, "reason", ""),) if isinstance(built, Fault) else built.notes
        for note in notes:
            told.setdefault(note, []).append(name)
    for note, names in told.items():
        typer.echo(f"{', '.join(names)}: {note}")
    typer.echo(f"answers: {_answers(finding)}")
