"""The task of a file, with what a command line says in place of what the file says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kb.errors import ConfigError
from search.task import Task, load_task, override


def task_with(
    path: Path,
    *,
    spool: str | None = None,
    workers: bool = False,
    mailbox: str | None = None,
    **over: Any,
) -> Task:
    """Return the task of a file with what the command line said in place of what the file said.

    Args:
        spool, mailbox: absolute paths of folders: judge elsewhere, ask by letters.
        workers: judge by workers that take their work from the database.
        over: as `override` takes them.

    Raises:
        ConfigError: candidates are to be judged in two places.
        TaskError: the file cannot be read, or a value is out of its range.
    """
    if spool is not None and workers:
        raise ConfigError(
            f"expected one place that judges, found the folder {spool} and workers: leave out --spool, or --workers "
            "and --ray"
        )
    if mailbox is not None:
        over = {**over, "author": "mailbox", "mailbox": mailbox}
    evaluator = {"spool": spool} if spool is not None else "workers" if workers else None
    return override(load_task(path), evaluator=evaluator, **over)
