"""The warm process that candidates are forked from, and one process that it forked."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from typing import Any

from kb.bytecode import options
from kb.errors import ToolchainError
from search.sandbox.fork_server import send_request

_START_SECONDS = 120.0  # importing torch from a cold disk
_LOG_TAIL = 2000
_DYING_SECONDS = 30  # that a process which was killed may take to end
_UNREAPED = (
    2  # killed children that the next one does not wait for: they give back memory, or a GPU
)


class Zygote:
    """The warm process; started when first used, restarted when it has died.

    Args:
        capability: of the GPU that its runners are for (90 is sm_90), 0 for none.
    """

    def __init__(self, capability: int = 0) -> None:
        self._capability = capability
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._told = False  # that it has imported all
        self._dying: list[Child] = []

    @property
    def pid(self) -> int | None:
        """Process id of the zygote that is alive, whose children alone are."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def run(self, request: dict[str, Any], fds: list[int]) -> int:
        """Fork a child and return its pid."""
        self.reap(_UNREAPED)
        return int(self._ask(request, fds)["pid"])

    def wait(self, pid: int) -> int:
        """Reap `pid`, which has ended or was killed, and return its wait status."""
        return int(self._ask({"op": "wait", "pid": pid}, [])["status"])

    def bury(self, child: Child) -> None:
        """Reap a child that was killed later, see `reap`: giving its memory back takes a while."""
        self._dying.append(child)

    def reap(self, most: int = 0, also: Child | None = None) -> None:
        """Wait until children that were killed are gone, the first ones first, but for so many, and `also` wherever it stands."""
        alive = self.pid is not None
        while len(self._dying) > most or also in self._dying:
            child = self._dying.pop(0)
            if not alive:  # it died with its zygote
                child.status = signal.SIGKILL
            child.reap()

    def _ask(self, request: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        for attempt in (1, 2):
            channel = self._ready()
            try:
                send_request(channel, request, fds)
                reply = channel.recv(1 << 16)
                if reply:
                    answer: dict[str, Any] = json.loads(reply)
                    return answer
            except OSError:
                pass
            self.close()
            if attempt == 2 or request["op"] == "wait":
                break
        if request["op"] == "wait":
            return {"status": signal.SIGKILL}  # it died with its zygote
        raise ToolchainError(
            "the process that starts candidates ends at once: kb doctor may say why"
        )

    @property
    def warm(self) -> bool:
        """Say whether it has imported all, so that it forks at once."""
        if not self._alive():
            return False
        assert self._socket is not None
        return self._told or bool(select.select([self._socket], [], [], 0)[0])

    def begin(self) -> None:
        """Start it without waiting for its imports."""
        if self._alive():
            return
        self.close()
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        code = (
            "import json, sys; sys.path[:] = json.loads(sys.argv[2])\n"
            "from search.sandbox.fork_server import serve; serve(int(sys.argv[1]), int(sys.argv[3]))"
        )
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-I",
                *options(),
                "-c",
                code,
                str(theirs.fileno()),
                json.dumps(sys.path),
                str(self._capability),
            ],
            pass_fds=[theirs.fileno()],
            env=_environment(),
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        theirs.close()
        mine.settimeout(_START_SECONDS)
        self._socket, self._told = mine, False

    def _alive(self) -> bool:
        return (
            self._socket is not None and self._process is not None and self._process.poll() is None
        )

    def _ready(self) -> socket.socket:
        if not self._alive():
            self.begin()
        assert self._socket is not None
        if not self._told and not self._socket.recv(1 << 10):
            assert self._process is not None
            assert self._process.stderr is not None
            last = (
                self._process.stderr.read().decode(errors="replace").strip().splitlines()
                or ["no message"]
            )[-1]
            raise ToolchainError(f"the process that starts candidates cannot import torch: {last}")
        self._told = True
        return self._socket

    def close(self) -> None:
        """End it and all that it forked."""
        self.reap()
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._process is not None:
            try:
                self._process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            if self._process.stderr is not None:
                self._process.stderr.close()
            self._process = None


def _environment() -> dict[str, str]:
    """Return nothing of the user's but where libraries and devices are: what is not there cannot be stolen."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    places = ("LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES")
    return {
        "PATH": os.defpath,
        "LC_ALL": "C.UTF-8",
        # Asking CUDA whether there is a device would spoil it for every child.
        "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
        **dict.fromkeys(names, "1"),
        **{name: os.environ[name] for name in places if name in os.environ},
    }


class Child:
    """One process that the zygote forked, by its pid and a handle that cannot be mistaken."""

    def __init__(self, zygote: Zygote, request: dict[str, Any], fds: list[int]) -> None:
        self._zygote = zygote
        self._log = os.memfd_create("kb-log", os.MFD_CLOEXEC)
        try:
            self.pid = zygote.run(request, [*fds, self._log])
            self.handle = os.pidfd_open(self.pid)
        except BaseException:
            os.close(self._log)
            raise
        self.status: int | None = None

    def wait(self, seconds: float) -> int | None:
        """Return its wait status once it has ended, None where it still runs after `seconds`."""
        if self.status is None and select.select([self.handle], [], [], max(seconds, 0))[0]:
            self.status = self._zygote.wait(self.pid)
        return self.status

    def signal(self, number: int) -> None:
        """Send it a signal, where it still lives."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.handle, number)

    def log(self, most: int = _LOG_TAIL) -> str:
        """Return the end of what it printed, at most so many bytes."""
        size = os.fstat(self._log).st_size
        return os.pread(self._log, most, max(0, size - most)).decode(errors="replace").strip()

    def kill(self) -> None:
        """End it and everything in its session, and forget it."""
        if self.handle < 0:
            return
        if self.status is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
            self.signal(signal.SIGKILL)
            self._zygote.bury(self)
        else:
            self.reap()

    def reap(self) -> None:
        """Wait until it has ended, and forget it."""
        if self.handle < 0:
            return
        if self.status is None and select.select([self.handle], [], [], _DYING_SECONDS)[0]:
            self.status = self._zygote.wait(self.pid)
        os.close(self.handle)
        os.close(self._log)
        self.handle = -1
