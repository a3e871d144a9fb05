"""kb bench: suites of problems, each an ordinary run, with figures over baselines."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

from kb.cli.render.output import JSON, console, json_text, print_json, steps
from kb.config import Home
from kb.progress import say

if TYPE_CHECKING:
    from kb.app.bench.record import SuiteRecord, SuiteRecords
    from kb.app.bench.session import Bench
    from kb.app.bench.suites import Suite, SuiteOptions

INTERRUPTED = 130
bench = typer.Typer(help="Run a suite of problems, and show its figures.", no_args_is_help=True)
FOLDER = typer.Argument(..., help="Folder with the problems; they stay where they are.")
SUITE = typer.Argument(..., help="A suite's name, as `kb bench list` shows it.")
ONLY = typer.Option(None, "--only", help="A problem's name, number or pattern; may be repeated.")
PRECISION = typer.Option(
    None, help="strict, framework, tf32, half or kernelbench; over the tasks'."
)
SEED = typer.Option(None, min=0, help="Seed of each search; over the tasks'.")
AUTHOR = typer.Option(None, help="recipes, llm, mailbox or auto; over the tasks'.")
TARGET = typer.Option(None, help="The device: this machine's, or one to compile for.")
DEVICES = typer.Option("one", help="GPUs to spread problems over: one, all, or 0,1,3.")
PATIENCE = typer.Option(
    None,
    min=1,
    help="Seconds after which a problem is ended, done or not; four times --seconds and 15 minutes where not said.",
)
FINAL = typer.Option(
    None, min=0.1, help="Seconds of measuring each of the best again; over the tasks' (10)."
)
AGAIN = typer.Option(
    False,
    "--again",
    help="Also problems that have a result; interrupted, the same command goes on.",
)
OUTPUT = typer.Option(None, "-o", "--output", help="Write to this file instead.")


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.add_typer(bench, name="bench")


@bench.command(
    epilog="Example: kb bench kernelbench KernelBench --level 1 --only 19 --only '*Softmax*'"
)
def kernelbench(
    folder: Path = FOLDER,
    level: int = typer.Option(1, min=1, max=9, help="Which level."),
    only: list[str] = ONLY,
    candidates: int = typer.Option(8, min=1, help="Candidates a problem, at most."),
    seconds: float = typer.Option(90.0, min=1, help="Wall time a problem, about."),
    precision: str = typer.Option("strict", help="strict, framework, tf32, half or kernelbench."),
    seed: int | None = SEED,
    author: str | None = AUTHOR,
    target: str | None = TARGET,
    devices: str = DEVICES,
    final: float | None = FINAL,
    patience: float | None = PATIENCE,
    again: bool = AGAIN,
    json: bool = JSON,
) -> None:
    """Work on KernelBench's problems of one level; a second call goes on where one broke off."""
    from kb.app.bench.suites import SuiteOptions
    from kb.app.bench.suites import kernelbench as read

    options = SuiteOptions(
        precision=precision, candidates=candidates, seconds=seconds, seed=seed, author=author, target=target,
        final=final,
    )  # fmt: skip
    suite = read(folder, level, options)
    _run(suite, only, options, devices=devices, patience=patience, again=again, json=json)


@bench.command(epilog="Example: kb bench tasks examples --seconds 60 --json")
def tasks(
    folder: Path = FOLDER,
    only: list[str] = ONLY,
    candidates: int | None = typer.Option(
        None, min=1, help="Candidates a problem; over the tasks'."
    ),
    seconds: float | None = typer.Option(None, min=1, help="Wall time a problem; over the tasks'."),
    precision: str | None = PRECISION,
    seed: int | None = SEED,
    author: str | None = AUTHOR,
    target: str | None = TARGET,
    devices: str = DEVICES,
    final: float | None = FINAL,
    patience: float | None = PATIENCE,
    again: bool = AGAIN,
    json: bool = JSON,
) -> None:
    """Work on a folder's task files and reference programs."""
    from kb.app.bench.suites import SuiteOptions, task_folder

    options = SuiteOptions(
        precision=precision, candidates=candidates, seconds=seconds, seed=seed, author=author, target=target,
        final=final,
    )  # fmt: skip
    suite = task_folder(folder, options)
    _run(suite, only, options, devices=devices, patience=patience, again=again, json=json)


@bench.command(epilog="Examples: kb bench aten --list; kb bench aten --only softmax --only add")
def aten(
    only: list[str] = ONLY,
    candidates: int = typer.Option(8, min=1, help="Candidates a problem, at most."),
    seconds: float = typer.Option(60.0, min=1, help="Wall time a problem, about."),
    precision: str = typer.Option("strict", help="strict, framework, tf32, half or kernelbench."),
    seed: int | None = SEED,
    author: str | None = AUTHOR,
    target: str | None = TARGET,
    devices: str = DEVICES,
    final: float | None = FINAL,
    patience: float | None = PATIENCE,
    again: bool = AGAIN,
    kernels: int = typer.Option(
        6, min=0, help="Other samples of an operator that kernels are written for, at most."
    ),
    names: bool = typer.Option(
        False, "--list", help="List the operators, and reasons; work on none."
    ),
    json: bool = JSON,
) -> None:
    """Work on 160 operators of torch that a rule takes from its own OpInfo."""
    from kb.app.bench.aten import aten as read
    from kb.app.bench.suites import SuiteOptions

    options = SuiteOptions(
        precision=precision, candidates=candidates, seconds=seconds, seed=seed, author=author, target=target,
        special_values=True, kernels=kernels, final=final,
    )  # fmt: skip
    with steps() as progress:
        suite, refused = read(Home.find().make(), options, progress)
    if names:
        _list_operators([task.name for task in suite.tasks], refused, json=json)
        return
    _run(suite, only, options, devices=devices, patience=patience, again=again, json=json)


def _list_operators(names: list[str], refused: dict[str, str], *, json: bool) -> None:
    if json:
        print_json({"operators": names, "refused": refused})
        return
    from collections import Counter

    typer.echo(f"{len(names)} operators: {', '.join(names)}")
    typer.echo(f"{len(refused)} are no part of the suite:")
    for reason, count in Counter(refused.values()).most_common():
        some = [name for name, why in refused.items() if why == reason]
        typer.echo(f"{count:>5}  {reason}: {', '.join(some[:8])}{', …' if count > 8 else ''}")


@bench.command(name="import", epilog="Example: kb bench import problems/softmax/task.yml -o tasks")
def import_foreign(
    path: Path = typer.Argument(..., help="A task.yml, a definition (.json), or its folder."),
    output: Path = typer.Option(Path("tasks"), "-o", "--output", help="Folder for the task."),
    workloads: int = typer.Option(8, min=1, help="Workloads that are taken, at most."),
    json: bool = JSON,
) -> None:
    """Write a task of GPU MODE, flashinfer-bench or SOL-ExecBench as a task file; nothing is run."""
    from kb.app.bench.imports import import_task

    found = import_task(path, output, workloads)
    if json:
        print_json(
            {
                "task": str(found.task),
                "reference": str(found.reference),
                "workloads": found.workloads,
                "notes": list(found.notes),
            }
        )
        return
    typer.echo(f"wrote {found.task}: {found.workloads} workloads; kb evolve {found.task}")
    for note in found.notes:
        say(f"differs: {note}")


@bench.command(
    name="export", epilog="Example: kb bench export twice_py-1 problems/twice_py/task.yml"
)
def export_winner(
    run: str = typer.Argument(..., help="A run's name, as `kb runs` lists it."),
    task: Path = typer.Argument(..., help="The task.yml or definition (.json) that it solves."),
    hardware: str | None = typer.Option(
        None, help="Of a definition: B200 or LOCAL (SOL-ExecBench), NVIDIA_H100 (flashinfer-bench)."
    ),
    output: Path | None = OUTPUT,
) -> None:
    """Write a run's winner as a submission of GPU MODE, or a solution of a definition."""
    from kb.app.bench.imports import export_winner as write
    from kb.app.history import open_run

    text = write(open_run(Home.find(), run), task, hardware)
    if output is None:
        typer.echo(text, nl=False)
    else:
        _write(output, text)
        typer.echo(f"wrote {output}")


@bench.command(name="list", epilog="Example: kb bench list")
def list_suites(json: bool = JSON) -> None:
    """List the suites on record, the oldest first."""
    from kb.cli.render.suites import suite_table, suite_values

    records = _records()
    found = [records.suite(name) for name in records.names()]
    if json:
        print_json([suite_values(one, rows=False) for one in found])
    else:
        console().print(suite_table(found))


@bench.command(
    epilog="Examples: kb bench show kernelbench-level1-1; kb bench show NAME --lines -o all.jsonl"
)
def show(
    suite: str = SUITE,
    lines: bool = typer.Option(
        False, "--lines", help="Print one JSON object a problem, a line each."
    ),
    output: Path | None = OUTPUT,
    json: bool = JSON,
) -> None:
    """Show a suite's figures, and every problem with what became of it."""
    from kb.cli.render.suites import row_lines

    found = _records().suite(suite)
    text = row_lines(found) if lines else f"{_told(found, json=json)}\n"
    if output is None:
        typer.echo(text, nl=False)
    else:
        _write(output, text)
        typer.echo(f"wrote {output}: {len(found.rows)} problems")


@bench.command(epilog="Example: kb bench plot kernelbench-level1-1 -o plots")
def plot(
    suite: str = SUITE,
    output: Path = typer.Option(Path("plots"), "-o", "--output", help="Folder for the SVG files."),
) -> None:
    """Draw a suite: fast_p, speed-up by problem with intervals, share of the roofline."""
    from kb.web.svg.suite_files import plots

    found = _records().suite(suite)
    for name, drawn in plots(found).items():
        _write(output / f"{suite}-{name}.svg", drawn)
        typer.echo(f"wrote {output / f'{suite}-{name}.svg'}")


def _write(path: Path, text: str) -> None:
    from kb.errors import ConfigError

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"cannot write {path}: {error.strerror}: name a file in a folder that can be written"
        ) from error


def _records() -> SuiteRecords:
    from kb.app.bench.record import SuiteRecords
    from kb.knowledge import open_tables

    return SuiteRecords(open_tables(Home.find().make()))


def _run(
    suite: Suite,
    only: list[str] | None,
    options: SuiteOptions,
    *,
    devices: str,
    patience: float | None,
    again: bool,
    json: bool,
) -> NoReturn:
    """Work on what is left of a suite's named problems, a line a problem, then show all of it."""
    from kb.app.bench.session import Bench
    from kb.app.bench.suites import chosen

    suite = chosen(suite, only or ())
    for name, reason in suite.unread:
        say(f"left out: {name}: {reason}")
    home = Home.find().make()
    working = Bench.begin(home, suite, options, devices=devices, again=again, patience=patience)
    say(
        f"{working.name} on {working.place.target.name}: {len(working.waiting)} problems to work on, "
        f"{working.present} have a result"
    )
    code = _work(working)
    typer.echo(_told(working.result(), json=json))
    raise typer.Exit(code)


def _work(working: Bench) -> int:
    from kb.cli.render.suites import row_text

    total, done = len(working.waiting), 0
    signal.signal(
        signal.SIGTERM, signal.default_int_handler
    )  # a long suite may run in the background
    with steps() as progress:
        progress(working.name, 0, total)
        try:
            for row in working.run():
                done += 1
                say(f"[{done}/{total}] {row_text(row)}")
                progress(working.name, done, total)
        except KeyboardInterrupt:
            say(f"interrupted with {total - done} problems left: the same command goes on")
            return INTERRUPTED
    if done < total:
        say(f"{total - done} problems left: the same command goes on")
    return 0


def _told(found: SuiteRecord, *, json: bool) -> str:
    from kb.cli.render.suites import suite_text, suite_values

    return json_text(suite_values(found)) if json else suite_text(found)
