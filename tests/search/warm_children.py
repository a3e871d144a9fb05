"""Python programs that commands of `warm_kb` start, forked from processes that have imported what they import.

A command that judges starts a fork server, which imports torch, and may start the process of a judge or of a problem,
which import most of `kb`: seconds each. Here they are processes of their own as well, with their own arguments,
environment, descriptors and end. How users' start is what `tests/search/sandbox`, the corpus of cheats, the wheel
and the wheelhouse show.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, NoReturn

# Of the environment, what the interpreter and imports may read.
_READ = (
    "CUDA_", "GOMP_", "HOME", "KMP_", "LD_", "MKL_", "OMP_", "OPENBLAS_", "PYTHON", "PYTORCH_", "TORCH", "TRITON_", "XDG_",
)  # fmt: skip

# A fork server that has imported everything, and forks itself for each who asks.
_SEED = """
import gc, json, os, signal, socket, sys
sys.path[:] = json.loads(sys.argv[2])
from search.sandbox import fork_server
channel, capability, warm = socket.socket(fileno=int(sys.argv[1])), int(sys.argv[3]), fork_server._warm
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while True:
    head, fds, _, _ = socket.recv_fds(channel, 1, 3)
    if not head:
        os._exit(0)
    if fork_server._warm is warm:
        warm(capability)
        fork_server._warm = lambda capability: None
        gc.collect()
        gc.freeze()
    pid = os.fork()
    if not pid:
        channel.close()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        os.dup2(fds[1], 2)
        fork_server.serve(fds[0], capability)
        os._exit(0)
    os.write(fds[2], str(pid).encode())
    for descriptor in fds:
        os.close(descriptor)
"""


_KEPT: list[int] = []  # descriptors by which a process asks for fork servers


class Seed:
    """A process that fork servers are forked from: as clean as theirs, since it is started as they are."""

    def __init__(self, capability: int, environment: dict[str, str]) -> None:
        self._turn = threading.Lock()
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        _KEPT.append(self._channel.fileno())
        number = str(theirs.fileno())
        with theirs:  # it ends when every process that holds the other end has ended
            subprocess.Popen(
                [sys.executable, "-I", "-c", _SEED, number, json.dumps(sys.path), str(capability)],
                pass_fds=[theirs.fileno()],
                env=environment,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )

    def start(self, descriptor: int) -> Server:
        """Fork a server that answers on a socket."""
        mine, theirs = os.pipe()
        said, saying = os.pipe()
        with self._turn:
            socket.send_fds(self._channel, [b"!"], [descriptor, saying, theirs])
        os.close(theirs)
        os.close(saying)
        pid = int(os.read(mine, 20))
        os.close(mine)
        return Server(pid, said)


class Server:
    """A fork server that runs, used as a `subprocess.Popen` is."""

    def __init__(self, pid: int, said: int) -> None:
        self.pid, self._handle = pid, os.pidfd_open(pid)
        self.stderr = os.fdopen(said, "rb")

    def poll(self) -> int | None:
        """Say whether it has ended: 0, or None while it runs."""
        return 0 if select.select([self._handle], [], [], 0)[0] else None

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it ends."""
        if not select.select([self._handle], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("fork server", timeout or 0)
        return 0

    def kill(self) -> None:
        """End it."""
        signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    def __del__(self) -> None:
        os.close(self._handle)


class Forked(subprocess.Popen[Any]):
    """A program that is given as ``python … -c CODE``, forked from this process."""

    def _execute_child(self, args: Sequence[str], *rest: Any) -> None:
        names = (
            "executable", "preexec_fn", "close_fds", "pass_fds", "cwd", "env", "startupinfo", "creationflags", "shell",
            "p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite",
        )  # fmt: skip
        given = SimpleNamespace(**dict(zip(names, rest, strict=False)))
        self.pid = os.fork()
        if not self.pid:
            _become(list(args), given)
        self._child_created = True
        ends = (given.p2cread, given.p2cwrite, given.c2pread, given.c2pwrite)
        self._close_pipe_fds(*ends, given.errread, given.errwrite)


def _become(args: list[str], given: SimpleNamespace) -> NoReturn:
    """Run the program as the interpreter does."""
    code = 1
    try:
        os.setsid()
        # What its parent leaves to the end is its parent's.
        atexit._clear()
        weakref.finalize._registry.clear()
        atexit.register(weakref.finalize._exitfunc)
        for place, descriptor in enumerate((given.p2cread, given.c2pwrite, given.errwrite)):
            if descriptor != -1:
                os.dup2(descriptor, place)
        low = 3
        for descriptor in [*sorted({*given.pass_fds, *_KEPT}), 1 << 16]:
            os.closerange(low, descriptor)
            low = descriptor + 1
        if given.env is not None:
            os.environ.clear()
            os.environ.update(given.env)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        text = args[args.index("-c") + 1]
        sys.argv = ["-c", *args[args.index("-c") + 2 :]]
        code = ended(lambda: exec(compile(text, "<string>", "exec"), {"__name__": "__main__"}))
    finally:
        leave(code)


def ended(program: Callable[[], object]) -> int:
    """Run a program and return its exit code, as the interpreter would find it."""
    try:
        program()
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except BaseException:  # noqa: BLE001 - whatever ends a program is told as the interpreter tells it
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def leave(code: int) -> NoReturn:
    """End as the interpreter does, but for taking imported modules apart: that copies their pages."""
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def fixed(env: Mapping[str, str]) -> dict[str, str]:
    """Return what of an environment must be as it was when `kb` was imported."""
    kept = {name: value for name, value in env.items() if name.startswith(_READ)}
    kept.pop("PYTHONPATH", None)  # a command puts it before its own path
    kept.pop(
        "TORCHINDUCTOR_CACHE_DIR", None
    )  # set by an import of Inductor, and read when it compiles
    return kept


def install() -> None:
    """Have this process, and those that are forked from it, start its children warm."""
    from kb.app.bench import process
    from search.judging.spool import judge_process
    from search.sandbox import zygote
    from search.sandbox.fork_server import DRY

    path, whole, bare = json.dumps(sys.path), fixed(os.environ), zygote._environment()
    seeds = {str(capability): Seed(capability, bare) for capability in (0, DRY)}

    def server(command: Sequence[str], *, env: Mapping[str, str], **given: Any) -> Any:
        *_, places, capability = command
        if capability in seeds and (places, env) == (path, bare):
            return seeds[capability].start(given["pass_fds"][0])
        return subprocess.Popen(command, env=env, **given)

    def program(command: Sequence[str], **given: Any) -> subprocess.Popen[Any]:
        warm = fixed(given.get("env") or os.environ) == whole
        return (Forked if warm else subprocess.Popen)(command, **given)

    zygote.subprocess = SimpleNamespace(**{**vars(subprocess), "Popen": server})
    for module in (judge_process, process):
        module.subprocess = SimpleNamespace(**{**vars(subprocess), "Popen": program})
