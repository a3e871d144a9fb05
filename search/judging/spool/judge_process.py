"""One judge kept warm in a process of its own, and what it answers."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from search.judged import Device
from search.judging.known_kernels import Calibration
from search.judging.spool.job import Failure, Job, JobAnswer, as_error, read_answer

_LONGEST = 3600.0  # seconds for one job: beyond that the judge itself hangs
_TICK = 0.5
_LOG = 4000
# The paths are this process's own: a file in the current folder must not pass for a library.
_CHILD = (
    "import gc, json, sys; sys.path[:] = json.loads(sys.argv[4])\n"
    "from search.judging.spool.judge_main import main\n"
    "try: main()\n"
    "finally: gc.freeze()"  # see `kb.cli.main`
)


class Died(Exception):
    """The judge's process ended, or had to be ended; the message says of what."""


class Stopped(Exception):
    """The loop was asked to stop while a judge was at work."""


class JudgeProcess:
    """Holds the process of one judge; another task gets another process.

    Args:
        device: ``auto``, ``cpu`` or ``cuda``.
        cache: for builds and references; it may be shared.
        say: is told, a line at a time, what goes on.
        tick: is called twice a second while a judge is at work; it may raise `Stopped`.
    """

    def __init__(
        self, device: str, cache: Path, say: Callable[[str], None], tick: Callable[[], None]
    ) -> None:
        self._device = device
        self._cache = cache
        self._say = say
        self._tick = tick
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._pending = b""
        self._log: Any = None
        self._busy = False
        self.task = ""  # the `Job.bench` that the process was used for, empty while it is fresh
        self.context = ""
        self.device: Device | Literal[""] = ""
        self.facts: Mapping[str, Any] = {}

    def open(self) -> None:
        """Start the process and learn which device it judges on.

        Raises:
            ToolchainError: torch or the device is missing.
        """
        if self._channel is not None:
            return
        self._start()
        told = self._receive(_LONGEST)
        if "failure" in told:
            self.close()
            raise as_error(Failure(**told["failure"]))
        self.context, self.device, self.facts = told["context"], told["device"], told["facts"]

    def ask(self, job: Job) -> JobAnswer:
        """Have `job` judged.

        Raises:
            Died: the process did not survive it.
            Stopped: `tick` said so; the process is gone.
        """
        if self.task not in ("", job.bench):
            self.close()
        try:
            self.open()
            self.task = job.bench
            reference = self._cache / "spool" / job.bench / "reference.py"
            told = self._exchange({"job": job.body(), "reference": str(reference)})
        except (Died, Stopped):
            self.close()
            raise
        if "failure" in told:
            self.close()  # whatever it was left in, the next job gets a fresh one
        blank = {"outcome": None, "prepared": None, "failure": None}
        head = {"job": job.name, "context": self.context, "facts": self.facts}
        return read_answer({**head, **blank, **told})

    def calibrate(self) -> Calibration:
        """Run the known kernels on the device; see `search.judging.known_kernels`.

        Raises:
            Died: the process did not survive it.
            Stopped: `tick` said so; the process is gone.
        """
        try:
            self.open()
            return Calibration(**self._exchange({"calibrate": True})["calibration"])
        except (Died, Stopped):
            self.close()
            raise

    def _exchange(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Send one message and return what is answered to it."""
        assert self._channel is not None
        self._busy = True
        try:
            self._channel.sendall(json.dumps(message).encode() + b"\n")
        except BrokenPipeError:
            raise self._died() from None
        told = self._receive(_LONGEST)
        while "progress" in told:
            self._say(f"… {told['progress']}")
            told = self._receive(_LONGEST)
        self._busy = False
        return told

    def _start(self) -> None:
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._cache.mkdir(parents=True, exist_ok=True)
        self._log = (self._cache / f"judge-{os.getpid()}.log").open("w+b")
        arguments = (str(theirs.fileno()), self._device, str(self._cache))
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _CHILD, *arguments, json.dumps(sys.path)],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            # Ctrl-C is for the loop, which then gives its job back.
            start_new_session=True,
        )
        theirs.close()
        mine.settimeout(_TICK)
        self._channel, self._pending = mine, b""

    def _receive(self, seconds: float) -> dict[str, Any]:
        assert self._channel is not None
        end = time.monotonic() + seconds
        while b"\n" not in self._pending:
            self._tick()
            try:
                piece = self._channel.recv(1 << 20)
            except TimeoutError:
                if time.monotonic() > end:
                    self.close()
                    raise Died(
                        f"the judge was still busy after {seconds / 60:.0f} minutes"
                    ) from None
                continue
            except ConnectionResetError:
                piece = b""
            if not piece:
                raise self._died()
            self._pending += piece
        line, _, self._pending = self._pending.partition(b"\n")
        told: dict[str, Any] = json.loads(line)
        return told

    def _died(self) -> Died:
        assert self._process is not None
        try:
            code = self._process.wait(10)
        except subprocess.TimeoutExpired:
            code = None
        told = self._last_words()
        self.close()
        if code is not None and code < 0:
            with suppress(ValueError):
                return Died(f"{signal.Signals(-code).name} ended the judge{told}")
        return Died(f"the judge's process ended with exit code {code}{told}")

    def _last_words(self) -> str:
        self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, self._log.tell() - _LOG))
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        return f": {lines[-1].strip()[:300]}" if lines else ""

    def close(self) -> None:
        """End the process and all that it started."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._process is not None:
            try:
                # It ends by itself, and tidily, when its channel closes, unless it is at work.
                self._process.wait(0 if self._busy else 10)
            except subprocess.TimeoutExpired:
                with suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
            self._process = None
        if self._log is not None:
            self._log.close()
            with suppress(OSError):
                os.unlink(self._log.name)
            self._log = None
        self.task, self._busy = "", False
