"""The judge's hold on the zygote and on one runner: ask, stop, look, kill."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from kb.errors import ToolchainError
from search.outcome import Crashed, TimedOut
from search.sandbox.faults import SIGNALS, Fault, forged, read_message
from search.sandbox.fork_server import send_request
from search.sandbox.ptrace import kernel_text
from search.sandbox.sandbox import Cell, SandboxPart, missing, overfull, shared_memory
from search.sandbox.shared_memory import Arena

_START_SECONDS = 120.0  # importing torch from a cold disk
_LONGEST_LINE = 4 << 20
_LOG_TAIL = 2000
_GLANCE = 0.25  # seconds between two looks at what a runner has written
_STOPPING, STARVED = 1.0, 20.0  # seconds for a thread to stand still; for one without a processor
_DYING_SECONDS = 30  # that a process which was killed may take to end


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
        self._reap()
        return int(self._ask(request, fds)["pid"])

    def wait(self, pid: int) -> int:
        """Reap `pid`, which has ended or was killed, and return its wait status."""
        return int(self._ask({"op": "wait", "pid": pid}, [])["status"])

    def bury(self, child: Child) -> None:
        """Reap a child that was killed, before the next one starts: giving its memory back takes a while.

        What a device holds for it is given back at once.
        """
        self._dying.append(child)
        if self._capability:
            self._reap()

    def _reap(self) -> None:
        alive = self.pid is not None
        while self._dying:
            child = self._dying.pop()
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
        self._reap()
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
        "PYTHONDONTWRITEBYTECODE": "1",
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


class Worker:
    """A runner: what is asked of it is answered in time, or ends in a `Fault`.

    Args:
        cell: None for the user's own reference, which is not walled in.
        cpu: the processor that it is bound to, None for any.
        extra: more of the request: ``device``, ``environment``.
    """

    def __init__(
        self,
        zygote: Zygote,
        arena: Arena,
        cell: Cell | None,
        cpu: int | None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        told = None if cell is None else asdict(cell)
        request = {"op": "run", "cell": told, "cpu": cpu, **(extra or {})}
        try:
            self.child = Child(zygote, request, [theirs.fileno(), arena.fd])
        finally:
            theirs.close()
        self._pending = b""
        self._cell, self._glanced, self._excess = cell, time.monotonic(), ""
        self.sandbox = self._sandbox()

    def _sandbox(self) -> tuple[SandboxPart, ...]:
        told = self._receive(time.monotonic() + 30, 30).get("sandbox", [])
        parts = tuple(
            SandboxPart(name=name, works=works, detail=detail) for name, works, detail in told
        )
        lacking = missing(parts)
        if lacking:
            self.close()
            reasons = ", ".join(f"{part.name} ({part.detail})" for part in lacking)
            raise ToolchainError(
                f"this machine cannot confine candidates, it lacks: {reasons}: use Linux 5.13 or later with Landlock "
                "and seccomp, or a container that permits them"
            )
        return parts

    def ask(self, message: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Send `message` and return the answer.

        Raises:
            Fault: it died, hung, or answered what no runner answers.
        """
        end = time.monotonic() + seconds
        line = json.dumps(message).encode() + b"\n"
        self._socket.settimeout(seconds)
        try:
            self._socket.sendall(line)
        except TimeoutError:
            raise self._hung(seconds) from None
        except OSError:
            raise self.dead() from None
        return self._receive(end, seconds)

    def tell(self, message: dict[str, Any]) -> None:
        """Send `message`; `answer` fetches what comes back."""
        self._socket.settimeout(10)
        try:
            self._socket.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            raise self.dead() from None

    def answer(self, seconds: float) -> dict[str, Any]:
        """Return the answer to what was told."""
        return self._receive(time.monotonic() + seconds, seconds)

    def _receive(self, end: float, seconds: float) -> dict[str, Any]:
        while b"\n" not in self._pending:
            left = end - time.monotonic()
            if left <= 0:
                raise self._hung(seconds)
            control = self._socket.fileno()
            left = min(left, _GLANCE) if self._watched else left
            ready, _, _ = select.select([control, self.child.handle], [], [], left)
            self._glance()
            if control in ready:
                piece = self._socket.recv(1 << 16)
                if not piece:
                    raise self.dead()
                self._pending += piece
                if len(self._pending) > _LONGEST_LINE:
                    raise forged("more text than any runner sends")
            elif self.child.handle in ready:
                raise self.dead()
        line, _, self._pending = self._pending.partition(b"\n")
        return read_message(line)

    def _hung(self, seconds: float) -> Fault:
        return Fault(
            TimedOut(
                reason=f"it was still running after {seconds:.1f} s",
                seconds=seconds,
                detail=self.child.log(),
            )
        )

    def alive(self) -> bool:
        """Say whether it still runs."""
        self._glance()
        return self.child.wait(0) is None

    @property
    def _watched(self) -> bool:
        """Say whether it may write files, or take memory that no limit counts."""
        return self._cell is not None and bool(self._cell.writable or self._cell.devices)

    def _glance(self) -> None:
        """End a runner that fills its scratch folder, or takes more shared memory than it may."""
        if not self._watched or time.monotonic() < self._glanced + _GLANCE:
            return
        assert self._cell is not None
        most = self._cell.memory
        if found := overfull(self._cell.writable):
            self._excess = f"it has {found} in its scratch folder"
        elif self._cell.devices and shared_memory(self.child.pid) > most:
            self._excess = f"it has more than {most >> 20} MiB of shared or pinned memory"
        self._glanced = time.monotonic()
        if self._excess:
            self.child.signal(signal.SIGKILL)

    def dead(self) -> Fault:
        """Return what a runner that hung up has died of."""
        status = self.child.wait(5)
        if self._excess:
            return Fault(Crashed(reason=self._excess))
        log = self.child.log()
        if status is None:
            return forged("it closed its channel and runs on")
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            known = number in {one.value for one in signal.Signals}  # of the real-time ones few are
            name = signal.Signals(number).name if known else f"signal {number}"
            told = SIGNALS.get(number, "a signal ended it")
            return Fault(Crashed(reason=f"{name}: {told}", detail=log, signal=name))
        code = os.waitstatus_to_exitcode(status)
        return Fault(
            Crashed(
                reason=f"its process ended by itself with exit code {code} before it had answered",
                detail=log,
            )
        )

    def stop(self) -> bool:
        """Stop every thread of it; return whether they stood still in time."""
        self.child.signal(signal.SIGSTOP)
        began = time.monotonic()
        while True:
            try:
                tasks = os.listdir(f"/proc/{self.child.pid}/task")
            except OSError:
                return False
            # A thread may end between being listed and being read.
            states = {_state(self.child.pid, task) for task in tasks}
            if states <= {"T", "t", "X", "Z", None}:
                return True
            # One that could run stops when it gets a processor, which on a busy machine may take seconds.
            if time.monotonic() > began + (STARVED if "R" in states else _STOPPING):
                return False

    def resume(self) -> None:
        """Let it run on."""
        self.child.signal(signal.SIGCONT)

    def close(self) -> None:
        """Kill it."""
        self.child.kill()
        self._socket.close()


def _state(pid: int, thread: str) -> str | None:
    try:
        return kernel_text(pid, f"task/{thread}/stat").rpartition(")")[2].split()[0]
    except OSError:
        return None
