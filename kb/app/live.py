"""Sees that one process at a time works on a run: of two, one would lose what it had judged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kb.app.resume import run_folder
from kb.config import Home
from kb.errors import ConfigError

_PATIENCE = 1.0  # seconds: the process that worked on it may be ending


class RunIsLive(ConfigError):
    """Another process works on the run."""


@contextmanager
def working_on(home: Home, run: str) -> Iterator[None]:
    """Hold a run; the system lets go of it where this process is killed.

    Raises:
        RunIsLive: another process holds it.
        ConfigError: the run's name is no name of a folder.
    """
    from filelock import FileLock, Timeout

    folder = run_folder(home, run)
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / "lock")
    try:
        lock.acquire(timeout=_PATIENCE)
    except Timeout as error:
        raise RunIsLive(
            f"{run} is being worked on by another process: wait for it, or end it"
        ) from error
    try:
        yield
    finally:
        lock.release()
