"""kb measure: what the ideas with recipes gain and lose on this machine, written into their records."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from kb.cli.render.output import JSON, console, print_json
from kb.progress import say

if TYPE_CHECKING:
    from kb.app.measuring import Measuring
    from search.measuring.choice import Pair
    from search.measuring.session import Measured

INTERRUPTED = 130
EPILOG = (
    "Examples: kb measure --dry-run; kb measure cpu-rows-simd --shapes 3; kb measure --minutes 15 --write; "
    "kb measure --shard 1/4 --output measured. Exit codes: 0 done, or time was up; 2 something you can mend; "
    "130 interrupted, with what was measured kept."
)
IDEAS = typer.Argument(None, metavar="[IDEA]...", help="Ideas by name; without: all that fit.")
OUTPUT = typer.Option(
    None, help="Folder for the records that change; without: measured/ in KB_HOME."
)


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command(epilog=EPILOG)(measure)


def measure(
    ideas: list[str] = IDEAS,
    shapes: int = typer.Option(5, min=1, max=50, help="Shapes for each idea."),
    settings: int = typer.Option(
        1, min=1, max=20, help="Settings of the knobs for each idea and shape, the defaults first."
    ),
    minutes: float | None = typer.Option(None, min=0.1, help="Stop in time for this; none: all."),
    target: str = typer.Option("auto", help="The device: this machine's, or a name to list for."),
    again: bool = typer.Option(False, "--again", help="Measure what has evidence already."),
    shard: str = typer.Option("1/1", metavar="I/N", help="Only the Ith of N shares of the tasks."),
    write: bool = typer.Option(False, "--write", help="Change the library's records in place."),
    output: Path | None = OUTPUT,
    dry_run: bool = typer.Option(False, "--dry-run", help="List ideas and shapes, measure none."),
    json: bool = JSON,
) -> None:
    """Measure every idea that has a recipe over several shapes; wins and losses become evidence."""
    from kb.app.measuring import MeasureOptions, Measuring

    asked = MeasureOptions(
        ideas=tuple(ideas or ()), shapes=shapes, settings=settings, minutes=minutes, target=target,
        again=again, shard=shard, write=write, output=output, dry_run=dry_run,
    )  # fmt: skip
    measuring = Measuring.begin(asked)
    if dry_run:
        _list(measuring, json=json)
        return
    code = _run(measuring)
    if json:
        print_json(_report(measuring))
    else:
        _show(measuring)
    raise typer.Exit(code)


def _run(measuring: Measuring) -> int:
    """Measure, a line of progress a pair; return the exit code."""
    waiting = measuring.waiting
    say(
        f"{measuring.target.name}: {len(waiting)} measurements to make on "
        f"{len({pair.shape.name for pair in waiting})} tasks, {measuring.present} are there already"
    )
    try:
        for number, one in enumerate(measuring.run(), start=1):
            say(
                f"[{number}/{len(waiting)}] {one.pair.card.name}, {one.pair.shape.name}: {_told(one)}"
            )
    except KeyboardInterrupt:
        say(f"interrupted: what was measured is in {measuring.output}; the same command goes on")
        return INTERRUPTED
    if measuring.stopped:
        left = len(waiting) - len(measuring.done)
        say(f"time is up with {left} measurements left: the same command goes on")
    return 0


def _told(one: Measured) -> str:
    found = one.evidence
    if found is None:
        return f"not measured: {one.trouble}"
    if found.gain is None:
        return f"failed: {found.note}"
    return f"{found.outcome}, {found.gain:.2f}x eager ({found.low} to {found.high}); {found.note}"


def _report(measuring: Measuring) -> dict[str, Any]:
    done = [one for one in measuring.done if one.evidence is not None]
    return {
        "target": measuring.target.name,
        "output": str(measuring.output),
        "present": measuring.present,
        "left": len(measuring.waiting) - len(measuring.done),
        "measurements": [
            {
                "idea": one.pair.card.name,
                "pattern": one.pair.card.pattern,
                "kind": one.pair.shape.kind,
                **one.evidence.model_dump(mode="json", exclude_none=True),
                "took": round(one.seconds, 2),
            }
            for one in done
            if one.evidence is not None
        ],
        "not_measured": [
            {"idea": one.pair.card.name, "task": one.pair.shape.name, "reason": one.trouble}
            for one in measuring.done
            if one.evidence is None
        ],
    }


def _show(measuring: Measuring) -> None:
    from rich.table import Table

    table = Table("idea", "won", "even", "lost", "failed", "least", "most over eager", box=None)
    rows: dict[str, list[Measured]] = {}
    for one in measuring.done:
        rows.setdefault(one.pair.card.name, []).append(one)
    for idea, found in sorted(rows.items()):
        fates = [one.evidence.outcome for one in found if one.evidence is not None]
        gains = [one.evidence.gain for one in found if one.evidence is not None]
        known = sorted(gain for gain in gains if gain is not None)
        counts = [str(fates.count(fate)) for fate in ("won", "even", "lost", "failed")]
        ends = [f"{known[0]:.2f}x", f"{known[-1]:.2f}x"] if known else ["", ""]
        table.add_row(idea, *counts, *ends)
    console().print(table)
    if measuring.done:
        typer.echo(f"records with their evidence: {measuring.output}")


def _list(measuring: Measuring, *, json: bool) -> None:
    rows = [_listed(measuring, name, pairs) for name, pairs in measuring.chosen.items()]
    if json:
        print_json({"target": measuring.target.name, "ideas": rows})
        return
    from rich.table import Table

    table = Table("idea", "pattern", "shapes (* has evidence already)", box=None)
    for row in rows:
        marked = (f"{one['task']}{'*' if one['measured'] else ''}" for one in row["shapes"])
        table.add_row(row["idea"], row["pattern"], ", ".join(marked) or "none that it fits")
    console().print(table)


def _listed(measuring: Measuring, name: str, pairs: list[Pair]) -> dict[str, Any]:
    shapes = [
        {"task": pair.shape.name, "kind": pair.shape.kind, "measured": measuring.is_present(pair)}
        for pair in pairs
    ]
    card = measuring.cards[name]
    return {"idea": name, "title": card.title, "pattern": card.pattern, "shapes": shapes}
