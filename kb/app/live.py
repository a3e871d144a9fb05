"""Sees that one process at a time works on a run or a portfolio: of two, one would lose what it had judged."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kb.app.resume import run_folder
from kb.config import Home
from kb.errors import ConfigError

if TYPE_CHECKING:
    from sqlalchemy import Engine

_PATIENCE = 1.0  # seconds: the process that worked on it may be ending
_PAUSE = 0.1  # seconds between two attempts at a lock of PostgreSQL


class RunIsLive(ConfigError):
    """Another process works on the run, or the portfolio."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} is being worked on by another process: wait for it, or end it")


@contextmanager
def working_on(home: Home, run: str) -> Iterator[None]:
    """Hold a run, in whichever home of its database; it is let go of where this process is killed.

    Raises:
        RunIsLive: another process holds it.
        ConfigError: the run's name is no name of a folder.
        ConnectionLost: the database is away.
    """
    from kb.database import open_engine

    run_folder(home, run)
    engine = open_engine(home)
    try:
        if engine.dialect.name == "postgresql":
            with _held_by_server(engine, run):
                yield
        else:
            with held(_lock_file(engine, run), run):
                yield
    finally:
        engine.dispose()


def is_worked_on(home: Home, run: str) -> bool:
    """Say whether a process works on a run now; one may where its lock cannot be looked at."""
    from kb.database import is_held, open_engine

    try:
        run_folder(home, run)
    except ConfigError:  # a name that no process can have begun to work on
        return False
    engine = open_engine(home)
    try:
        if engine.dialect.name == "postgresql":
            return is_held(engine, f"run {run}")
        return _is_locked(_lock_file(engine, run))
    finally:
        engine.dispose()


def state_of(home: Home, run: str, status: str) -> str:
    """Return what a run is whose record says `status`: what a killed process left says "running" for ever."""
    return "interrupted" if status == "running" and not is_worked_on(home, run) else status


def _lock_file(engine: Engine, run: str) -> Path:
    # Beside the file: KB_DATABASE may name one that several homes share.
    return Path(f"{Path(engine.url.database or '').resolve()}.locks") / run


def _is_locked(path: Path) -> bool:
    """Say whether a process has locked a file; many may look at the same time."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


@contextmanager
def _held_by_server(engine: Engine, run: str) -> Iterator[None]:
    from kb.database import holding

    end = time.monotonic() + _PATIENCE
    while True:
        with holding(engine, f"run {run}") as free:
            if free:
                yield
                return
        if time.monotonic() > end:
            raise RunIsLive(run)
        time.sleep(_PAUSE)


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
        raise RunIsLive(name) from error
    try:
        yield
    finally:
        lock.release()
