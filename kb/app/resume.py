"""Takes up runs that exist: their task as it was, and its reference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from kb.config import Home
from kb.errors import ConfigError, StoreError
from search.task import Task, stored_settings

if TYPE_CHECKING:
    from kb.app.session import Setup


def run_folder(home: Home, run: str) -> Path:
    """Return the folder of what is kept of a run beside its record; it need not be there.

    Raises:
        ConfigError: the run's name is no name of a folder.
    """
    from search.runs.imports import NAME

    if not NAME.fullmatch(run):
        raise ConfigError(
            f"expected a run's name of letters, digits, '.', '_' and '-', found {run[:80]!r}"
        )
    return home.root / "runs" / run


def keep_reference(home: Home, run: str, task: Task) -> Path:
    """Keep the reference as it was when the run began: a resumed run must see the same one.

    Raises:
        ConfigError: the run's name is no name of a folder.
    """
    path = run_folder(home, run) / "reference.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(task.source, encoding="utf-8")
    return path


def stored_task(home: Home, run: str, about: Mapping[str, Any]) -> Task:
    """Return the task of a run, from its record, to run its program.

    Raises:
        ConfigError: the run was imported, and its program is not trusted yet.
        StoreError: another version of kb began it, whose settings this one does not know.
    """
    try:
        task = _task_of(about)
    except (KeyError, ValidationError) as error:
        found = error.errors()[0]["loc"] if isinstance(error, ValidationError) else error.args
        raise StoreError(
            f"{run}: expected settings of a task as this version of kb knows them, found others "
            f"({'.'.join(map(str, found))}): go on with it by the version that began it, or begin a new run"
        ) from error
    reference = keep_reference(home, run, task)
    if about.get("imported"):
        raise ConfigError(
            f"{run} was imported: going on runs its program with your rights, by its settings: read {reference} and "
            f"kb show {run}, then kb replay {run} --trust"
        )
    return replace(task, reference=reference)


def _task_of(about: Mapping[str, Any]) -> Task:
    return Task(
        name=about["task"],
        path=Path(about["path"]),
        reference=Path(about["reference"]),
        source=about["source"],
        settings=stored_settings(about["settings"]),
        kernels=tuple((name, source) for name, source in about.get("kernels", ())),
    )


def check_same_place(about: Mapping[str, Any], setup: Setup) -> None:
    """Refuse to go on where the device or the author is another one.

    Raises:
        ConfigError: it is.
    """
    for key, found in (("target", setup.target.name), ("author", setup.author_name)):
        if about[key] != found:
            raise ConfigError(
                f"the run began with {key} {about[key]!r}, here it is {found!r}: "
                "resume it where it began, or start a new run"
            )
