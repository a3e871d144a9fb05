"""Workers as processes of this machine, one for each device."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence

from search.work.pools import WorkerOptions

_PAUSE = 5.0  # seconds before what ended at once is started again
_MOST = 60.0  # seconds for a worker to give its work back


class LocalPool:
    """Starts a worker process for each device.

    Args:
        devices: ``cpu``, ``cuda``, or ``cuda:`` with an index.
    """

    def __init__(self, devices: Sequence[str], options: WorkerOptions) -> None:
        self._devices = tuple(devices)
        self._options = options
        self._workers: dict[str, subprocess.Popen[bytes]] = {}
        self._again: dict[str, float] = {}  # when a device gets a worker again

    @property
    def running(self) -> int:
        """How many workers have not ended."""
        return sum(worker.poll() is None for worker in self._workers.values())

    @property
    def code(self) -> int:
        """The exit code of the first worker that ended otherwise than well, 0 where there is none."""
        codes = (worker.poll() or 0 for worker in self._workers.values())
        return next((128 - code if code < 0 else code for code in codes if code), 0)

    def start(self, *, recalibrate: bool = False) -> None:
        """Start the workers.

        Args:
            recalibrate: they take the known kernels' times of now as their devices' own; what is started
                again later does not.
        """
        for device in self._devices:
            self._start(device, recalibrate=recalibrate)

    def tend(self) -> list[str]:
        """Start again what ended by itself, after a pause."""
        lines = []
        for device, worker in self._workers.items():
            code = worker.poll()
            if code is None or (self._options.once and code == 0):
                continue
            if device not in self._again:
                self._again[device] = time.monotonic() + _PAUSE
                lines.append(
                    f"the worker on {device} ended ({_told(code)}): it is started again in {_PAUSE:g} s"
                )
            elif time.monotonic() > self._again[device]:
                del self._again[device]
                self._start(device)
        return lines

    def close(self) -> None:
        """End every worker, and wait until it has given its work back."""
        for worker in self._workers.values():
            if worker.poll() is None:
                worker.terminate()
        end = time.monotonic() + _MOST
        for worker in self._workers.values():
            try:
                worker.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()

    def _start(self, device: str, *, recalibrate: bool = False) -> None:
        self._workers[device] = subprocess.Popen(
            self._options.command(device, recalibrate=recalibrate),
            env={**os.environ, **self._options.environment()},
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for whoever holds the pool, which then ends them
        )


def _told(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"
