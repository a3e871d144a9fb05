"""The judge's hold on one runner: ask, stop, look, kill."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from kb.errors import ToolchainError
from search.outcome import Crashed, TimedOut
from search.sandbox.faults import SIGNALS, Fault, forged, read_message
from search.sandbox.ptrace import kernel_text
from search.sandbox.sandbox import Cell, SandboxPart, missing, overfull, shared_memory
from search.sandbox.shared_memory import Arena
from search.sandbox.zygote import Child, Zygote

_LONGEST_LINE = 4 << 20
_GLANCE = 0.25  # seconds between two looks at what a runner has written
_AT_ONCE, _PAUSE = 200e-6, 50e-6  # seconds of looking without a pause, and between looks after that
_STOPPING, STARVED = 1.0, 20.0  # seconds for a thread to stand still; for one without a processor


class Worker:
    """A runner: what is asked of it is answered in time, or ends in a `Fault`. It starts while the judge does something else.

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
        self.sandbox: tuple[SandboxPart, ...] = ()
        self._stands = False

    def ready(self) -> None:
        """Wait until its walls stand; before that nothing may be asked of it.

        Raises:
            Fault: it died while it started.
            ToolchainError: this machine cannot confine candidates.
        """
        if self._stands:
            return
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
        self.sandbox, self._stands = parts, True

    def stands(self) -> bool:
        """Say whether it lives, once its walls should stand."""
        try:
            self.ready()
        except Fault:
            return False
        return self.alive()

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

    def tell(self, message: dict[str, Any], seconds: float = 10.0) -> None:
        """Send `message`; `answer` fetches what comes back.

        Raises:
            Fault: it died, or did not take the message in so many seconds.
        """
        self._socket.settimeout(seconds)
        try:
            self._socket.sendall(json.dumps(message).encode() + b"\n")
        except TimeoutError:
            raise self._hung(seconds) from None
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
            except (FileNotFoundError, ProcessLookupError):
                return False
            # A thread may end between being listed and being read.
            states = {_state(self.child.pid, task) for task in tasks}
            if states <= {"T", "t", "X", "Z", None}:
                return True
            if time.monotonic() > began + _AT_ONCE:
                time.sleep(_PAUSE)  # it may need this processor to stand still
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


class WorkerBeside:
    """A runner that starts beside something else.

    Args:
        start: starts one, and sees to its end.
    """

    def __init__(self, start: Callable[[], Worker]) -> None:
        self._start = start
        self._worker: Worker | None = None

    def begin(self) -> None:
        """Start it, if it has not started."""
        self._worker = self._worker or self._start()

    def standing(self) -> Worker:
        """Return it, or another one where it died before there was a candidate in it."""
        self.begin()
        assert self._worker is not None
        return self._worker if self._worker.stands() else self._start()


def _state(pid: int, thread: str) -> str | None:
    try:
        return kernel_text(pid, f"task/{thread}/stat").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None
