"""Runs commands of `kb` in processes forked from one that has imported all of it, and run nothing.

A command that searches imports torch and torch.export for some five seconds before it does anything. Here each command
is still a process of its own, with its own arguments, environment, folder, output and end: only the imports are shared.

Their judges empty caches as those of other tests do, see `tests/conftest.py`.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from warm_children import ended, fixed, install, leave

# No onnxruntime: it starts threads when it is imported.
_IMPORTS = (
    "numpy", "torch", "torch.export", "torch.export._trace",
    "kb.app.run", "kb.app.build_session", "kb.cli.commands", "kb.cli.knowledge.ingest", "kb.cli.render.progress",
    "kb.cli.render.run_report", "kb.cli.runs", "kb.knowledge", "kb.native",
    "kb.app.bench.child", "search.costs.trace", "search.judging.cpu.judge", "search.judging.spool.judge_main",
    "search.authors.llm", "search.authors.recipes",
)  # fmt: skip


class WarmKb:
    """A process that has imported `kb`, started when it is first needed.

    It ends when this one does: the other end of its socket is closed then.
    """

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        # As it is before any test changes it.
        self._whole = dict(os.environ)
        self._environment = fixed(self._whole)
        self._turn = threading.Lock()

    def takes(self, env: Mapping[str, str]) -> bool:
        """Say whether a command may run in it: what imports read of the environment is as it was."""
        with self._turn:
            if self._socket is None:
                self._begin()
        return fixed(env) == self._environment

    def start(self, command: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> WarmProcess:
        """Start a command in a process group of its own."""
        request = {"command": list(command), "cwd": str(cwd), "env": dict(env)}
        out, theirs_out = os.pipe()
        err, theirs_err = os.pipe()
        pid = self._ask(request, [theirs_out, theirs_err])
        os.close(theirs_out)
        os.close(theirs_err)
        return WarmProcess(command, pid, (out, err), lambda: self._ask({"wait": pid}, []))

    def _ask(self, request: Mapping[str, object], fds: list[int]) -> int:
        assert self._socket is not None
        body = json.dumps(request).encode()
        with self._turn:
            socket.send_fds(self._socket, [f"{len(body):8d}".encode()], fds)
            self._socket.sendall(body)
            reply = self._socket.recv(16)
        if not reply:
            raise RuntimeError("the process that commands are forked from has ended")
        return int(reply)

    def _begin(self) -> None:
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=self._whole,
            )
        atexit.register(self._end)

    def _end(self) -> None:
        assert self._socket is not None
        assert self._process is not None
        self._socket.close()
        self._process.wait()


class WarmProcess:
    """A command that runs, used as a `subprocess.Popen` is.

    Args:
        outputs: the reading ends of its pipes.
        status: asks for its exit code once it has ended.
    """

    def __init__(
        self, args: Sequence[str], pid: int, outputs: tuple[int, int], status: Any
    ) -> None:
        self.args, self.pid = list(args), pid
        self.stdout, self.stderr = (os.fdopen(fd, encoding="utf-8") for fd in outputs)
        self.returncode: int | None = None
        self._handle, self._status = os.pidfd_open(pid), status

    def poll(self) -> int | None:
        """Return its exit code, None while it runs."""
        if self.returncode is None and select.select([self._handle], [], [], 0)[0]:
            os.close(self._handle)
            self.returncode = self._status()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it ends."""
        if self.returncode is None and not select.select([self._handle], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        code = self.poll()
        assert code is not None
        return code

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Read what is left of its outputs, and wait until it ends."""
        texts = ["", ""]

        def read(place: int, file: Any) -> None:
            texts[place] = file.read()

        files = (self.stdout, self.stderr)
        readers = [
            threading.Thread(target=read, args=(n, f), daemon=True) for n, f in enumerate(files)
        ]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(timeout)
            if reader.is_alive():
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
        self.wait(timeout)
        for file in files:
            file.close()
        return texts[0], texts[1]

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)


WARM = WarmKb()  # one for all tests of this process


def _serve(channel: socket.socket) -> None:
    """Fork for each command and return in the child, set up as that command; end with the other side."""
    while True:
        head, fds, _, _ = socket.recv_fds(channel, 8, 2)
        if not head:
            os._exit(0)
        body = b""
        while len(body) < int(head):
            body += channel.recv(int(head) - len(body))
        request = json.loads(body)
        if "wait" in request:
            _, status = os.waitpid(request["wait"], 0)
            channel.sendall(str(os.waitstatus_to_exitcode(status)).encode())
            continue
        pid = os.fork()
        if not pid:
            channel.close()
            _become(request, fds)
            return
        os.setpgid(pid, pid)
        for fd in fds:
            os.close(fd)
        channel.sendall(str(pid).encode())


def _become(request: dict[str, Any], fds: list[int]) -> None:
    os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for fd, place in zip(fds, (1, 2), strict=True):
        os.dup2(fd, place)
        os.close(fd)
    # What it had was a file, and believes that it can be sought in.
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    os.environ.clear()
    os.environ.update(request["env"])
    places = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [place for place in places if place and place not in sys.path]
    os.chdir(request["cwd"])
    sys.argv = request["command"]
    sys.modules["__main__"].__file__ = sys.argv[0]


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # its owner is asked, and ends it
    channel = socket.socket(fileno=int(sys.argv[1]))
    sys.path.pop(0)  # of this file: a command finds its modules where `kb` finds them
    for name in _IMPORTS:
        import_module(name)
    # Reading the ranks of tokens takes half a second, and they are unpacked in a home.
    with tempfile.TemporaryDirectory() as home:
        os.environ["KB_HOME"] = home
        import_module("kb.tokens").load_encoding()
    import_module("search.costs.bandwidth").core_bandwidth()  # another half a second
    import_module("search.judging.cpu.timing")._MOST_EVICTED = 16 << 20
    install()
    gc.collect()
    gc.freeze()  # a command's collector would copy the pages of all that is imported
    _serve(channel)
    leave(ended(import_module("kb.cli").main))
