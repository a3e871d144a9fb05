"""Pools: they bring workers to devices, and keep them alive; the work itself lies in the database."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from search.work.queue import LEASE

# Ends when the process that started it ends; a file in the current folder must not pass for a library.
_START = (
    "import ctypes, json, sys; ctypes.CDLL(None).prctl(1, 15); sys.path[:] = json.loads(sys.argv.pop(1));"
    "sys.argv[0] = 'kb'; from kb.cli import main; main()"
)


class Pool(Protocol):
    """Keeps one worker alive on each of its devices.

    A worker that dies costs time, never work: its lease runs out, and another takes it.
    """

    def start(self) -> None:
        """Start the workers.

        Raises:
            KbError: they cannot be started; one line says why.
        """
        ...

    def tend(self) -> list[str]:
        """Start again what ended by itself; return a line about each."""
        ...

    def close(self) -> None:
        """End every worker; each gives back the work that it has."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """How the workers of a pool work.

    Attributes:
        database: a URL that each of them can reach; it may hold a password, so it travels in
            the environment.
        home: folder for builds, on each machine; empty for each machine's own.
        lease: seconds that a worker may be silent.
        drift: relative difference of a known kernel's time above which nothing is timed; None: what
            the kind of device allows.
    """

    database: str
    home: str = ""
    lease: float = LEASE
    drift: float | None = None
    once: bool = False

    def command(
        self, device: str, path: Sequence[str] = (), *, recalibrate: bool = False
    ) -> list[str]:
        """Return the command of a worker on ``cpu``, ``cuda`` or ``cuda:2``."""
        flags = ["--devices", device, "--lease", str(self.lease)]
        flags += [] if self.drift is None else ["--drift", str(self.drift)]
        flags += ["--json", *(["--once"] if self.once else [])]
        flags += ["--recalibrate"] if recalibrate else []
        where = json.dumps(list(path or sys.path))
        return [sys.executable, "-P", "-c", _START, where, "worker", *flags]

    def environment(self) -> dict[str, str]:
        """Return what the environment of a worker has besides that of its machine."""
        home = {"KB_HOME": self.home} if self.home else {}
        return {"KB_DATABASE": self.database, **home}
