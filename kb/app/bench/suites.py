"""Readers of suites: a folder in some form becomes tasks."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kb.errors import TaskError
from search.task import Task, TaskFile, is_reference, load_task

_NUMBERED = re.compile(r"(\d+)_(.+)")
_LEVEL = re.compile(r"level([1-9])")


@dataclass(frozen=True, kw_only=True)
class SuiteOptions:
    """What is asked of every problem of a suite; None leaves what a task says.

    Attributes:
        seconds: of a run, preparation and final measurement included.
        final: seconds of measuring each of the best again.
        kernels: of a problem's samples, for how many the winner's kernels are written again, at most.
    """

    precision: str | None = None
    candidates: int | None = None
    seconds: float | None = None
    final: float | None = None
    seed: int | None = None
    author: str | None = None
    target: str | None = None
    special_values: bool | None = None
    kernels: int | None = None

    def settings(self, given: TaskFile) -> TaskFile:
        """Return a task's settings with what is asked in their place.

        Raises:
            TaskError: a value is out of its range.
        """
        from pydantic import ValidationError

        values = given.model_dump()
        if self.candidates is not None:
            # Where candidates are few, each idea gets one: more settings of the first would leave none to others.
            search = values["search"]
            search["branches"] = min(search["branches"], max(1, self.candidates // search["ideas"]))
        minutes = None if self.seconds is None else self.seconds / 60
        asked: tuple[tuple[dict[str, Any], str, object], ...] = (
            (values, "precision", self.precision),
            (values, "author", self.author),
            (values, "target", self.target),
            (values, "special_values", self.special_values),
            (values, "final_seconds", self.final),
            (values["stop"], "candidates", self.candidates),
            (values["stop"], "minutes", minutes),
            (values["search"], "seed", self.seed),
        )
        for part, key, value in asked:
            if value is not None:
                part[key] = value
        try:
            return TaskFile.model_validate(values)
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(map(str, first["loc"][:2]))
            raise TaskError(
                f"option for {key}: {first['msg']}, found {first['input']!r}"
            ) from error


@dataclass(frozen=True, kw_only=True)
class Suite:
    """Problems under one name.

    Attributes:
        name: becomes the first part of the record's name.
        folder: of the problems, where the user named one: another folder's are another suite.
        unread: files that are no problem, with the reason.
        samples: by task, the file of what its winner is answered on besides; empty where it is not.
    """

    name: str
    tasks: tuple[Task, ...]
    unread: tuple[tuple[str, str], ...] = ()
    samples: Mapping[str, Path] = field(default_factory=dict)
    folder: Path | None = None


def kernelbench(folder: Path, level: int, options: SuiteOptions) -> Suite:
    """Read one level of KernelBench's problems, in the order of their numbers.

    Args:
        folder: that holds ``level1``, ``level2`` and so on (also below a folder ``KernelBench``), or
            the folder of the level itself; problems are files ``NUMBER_NAME.py``.

    Raises:
        TaskError: there is no such folder, no problem in it, or it is that of another level.
    """
    candidates = (folder / f"level{level}", folder / "KernelBench" / f"level{level}", folder)
    found = next((one for one in candidates if one.is_dir() and _problems(one)), None)
    if found is None:
        raise TaskError(
            f"{folder}: expected a folder level{level} of files NUMBER_NAME.py, found none: "
            "name a checkout of KernelBench, or its folder KernelBench"
        )
    named = _LEVEL.fullmatch(found.resolve().name)
    if named is not None and int(named[1]) != level:
        raise TaskError(
            f"{folder}: expected the problems of level {level}, found the folder of level {named[1]}: "
            f"write --level {named[1]}, or name the folder that holds level{level}"
        )
    suite = _read(f"kernelbench-level{level}", _problems(found), options)
    return replace(suite, folder=found.resolve())


def task_folder(folder: Path, options: SuiteOptions) -> Suite:
    """Read a folder's task files, and its reference programs that no task file names.

    Raises:
        TaskError: there is no such folder, or no task in it.
    """
    if not folder.is_dir():
        raise TaskError(f"{folder}: expected a folder of task files, found none: check the path")
    files = sorted((*folder.glob("*.yaml"), *folder.glob("*.yml")))
    suite = _read(_slug(folder.absolute().name), files, options)
    named = {task.reference.resolve() for task in suite.tasks}
    programs = [
        path
        for path in sorted(folder.glob("*.py"))
        if path.resolve() not in named and is_reference(path)
    ]
    rest = _read(suite.name, programs, options)
    tasks, unread = (*suite.tasks, *rest.tasks), (*suite.unread, *rest.unread)
    if not tasks and not unread:
        raise TaskError(
            f"{folder}: expected task files (.yaml) or reference programs with get_inputs() (.py), "
            "found none: name another folder"
        )
    _distinct(tasks)
    return Suite(name=suite.name, tasks=tasks, unread=unread, folder=folder.resolve())


def chosen(suite: Suite, only: Sequence[str]) -> Suite:
    """Return the problems that are named by name, number or pattern; all where none is.

    Raises:
        TaskError: a name fits none.
    """
    if not only:
        return suite
    for asked in only:
        if not any(_fits(task.name, asked) for task in suite.tasks):
            shown = ", ".join(task.name for task in suite.tasks[:5])
            raise TaskError(
                f"--only {asked}: expected a problem's name, number or pattern (*conv*), found none "
                f"of {len(suite.tasks)} that fits: the first are {shown}"
            )
    tasks = tuple(task for task in suite.tasks if any(_fits(task.name, one) for one in only))
    return replace(suite, tasks=tasks, unread=())


def _fits(name: str, asked: str) -> bool:
    return fnmatch.fnmatchcase(name.lower(), asked.lower()) or name.partition("_")[0] == asked


def _problems(folder: Path) -> list[Path]:
    found = [path for path in folder.glob("*.py") if _NUMBERED.fullmatch(path.stem)]
    return sorted(found, key=lambda path: (int(path.stem.partition("_")[0]), path.stem))


def _read(name: str, paths: Iterable[Path], options: SuiteOptions) -> Suite:
    tasks, unread = [], []
    for path in paths:
        try:
            task = load_task(path)
        except TaskError as error:
            unread.append((path.name, str(error)))
            continue
        tasks.append(replace(task, settings=options.settings(task.settings)))
    return Suite(name=name, tasks=tuple(tasks), unread=tuple(unread))


def _distinct(tasks: Sequence[Task]) -> None:
    seen: dict[str, Path] = {}
    for task in tasks:
        if task.name in seen:
            raise TaskError(
                f"{task.path} and {seen[task.name]}: expected different names, found {task.name!r} twice: "
                "give one of them another 'name:'"
            )
        seen[task.name] = task.path


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "tasks"
