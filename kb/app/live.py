"""Sees that one process at a time works on a run or a portfolio: of two, one would lose what it had judged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kb.app.resume import run_folder
from kb.config import Home
from kb.errors import ConfigError

_PATIENCE = 1.0  # seconds: the process that worked on it may be ending


class RunIsLive(ConfigError):
    """Another process works on the run, or the portfolio."""


@contextmanager
def working_on(home: Home, run: str) -> Iterator[None]:
    """Hold a run; the system lets go of it where this process is killed.

    Raises:
        RunIsLive: another process holds it.
        ConfigError: the run's name is no name of a folder.
    """
    with held(run_folder(home, run) / "lock", run):
        yield


@contextmanager
def held(path: Path, name: str) -> Iterator[None]:
    """Hold what a file stands for.

    Args:
        name: of what it stands for.

    Raises:
        RunIsLive: another process holds it.
    """
    from filelock import FileLock, Timeout

    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    try:
        lock.acquire(timeout=_PATIENCE)
    except Timeout as error:
        raise RunIsLive(
            f"{name} is being worked on by another process: wait for it, or end it"
        ) from error
    try:
        yield
    finally:
        lock.release()
