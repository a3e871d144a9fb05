"""Several tasks on one budget: what `kb evolve --budget` and `kb resume portfolio-N` do and print."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from kb.cli.render.output import console, print_json, steps
from kb.config import Home
from kb.errors import ConfigError

if TYPE_CHECKING:
    from kb.app.portfolio import Portfolio

_NO_CANDIDATE, _INTERRUPTED = 4, 130


def one_task(paths: Sequence[Path]) -> Path:
    """Return the only task.

    Raises:
        ConfigError: there are several, which need a budget.
    """
    if len(paths) != 1 or paths[0].is_dir():
        found = f"{len(paths)} tasks" if len(paths) != 1 else f"the folder {paths[0]}"
        raise ConfigError(
            f"expected one task, or a budget for several, found {found}: "
            "add for example --budget '60 minutes'"
        )
    return paths[0]


def begin(
    paths: Sequence[Path], budget: str, options: dict[str, Any], *, as_json: bool
) -> NoReturn:
    """Begin a portfolio, spend its budget, and print what came of it."""
    from kb.app import portfolio
    from search.portfolio.budget import UNITS, parse_budget

    # `--budget 200000 tokens` without quotes leaves the unit among the tasks.
    units = [path for path in paths if str(path) in UNITS and not path.exists()]
    amount = parse_budget(" ".join((budget, *map(str, units))))
    files = portfolio.task_files([path for path in paths if path not in units])
    home = Home.find().make()
    _spend(home, portfolio.begin(home, files, amount, options), as_json=as_json)


def go_on_with(name: str, *, as_json: bool) -> None:
    """Go on with the portfolio of a name; return where it is the name of none."""
    from kb.app import portfolio

    home = Home.find()
    found = portfolio.find(home, name)
    if found is not None:
        _spend(home, found, as_json=as_json)


def _spend(home: Home, portfolio: Portfolio, *, as_json: bool) -> NoReturn:
    from kb.app.command_line import task_with
    from kb.app.portfolio import PortfolioRun
    from kb.cli.render.progress import Screen

    load = partial(task_with, **portfolio.overrides)
    with steps() as progress:
        announce = partial(typer.echo, err=as_json)
        report = PortfolioRun(home, portfolio, load, progress, Screen, announce).spend()
    if as_json:
        print_json(report)
    else:
        _print(report)
    if report["interrupted"]:
        raise typer.Exit(_INTERRUPTED)
    raise typer.Exit(0 if any(row["speedup"] for row in report["tasks"]) else _NO_CANDIDATE)


def _print(report: dict[str, Any]) -> None:
    from rich.table import Table

    unit = report["budget"]["unit"]
    table = Table("task", "run", "rounds", unit, "over eager", "roofline", "ended", box=None)
    for row in report["tasks"]:
        table.add_row(
            row["task"],
            row["run"] or "",
            f"{row['rounds']}",
            f"{row['cost']:.4g}",
            f"{row['speedup']:.2f}x" if row["speedup"] else "",
            f"{row['roofline']:.0%}" if row["roofline"] else "",
            row["problem"] or row["stop_reason"] or "",
        )
    console().print(table)
    mean = report["geometric_mean"]
    shown = "" if mean is None else f", {mean:.2f}x over eager on average (geometric mean)"
    typer.echo(
        f"{report['portfolio']}: {report['spent']:.4g} of {report['budget']['amount']:g} {unit} spent{shown}"
    )
