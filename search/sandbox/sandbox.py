"""The walls around candidate code: what each is, and whether this machine has it."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from search.sandbox import landlock, seccomp

_NO_NEW_PRIVS, _SET_PDEATHSIG = 38, 1
_NEW_USER, _NEW_NET, _NEW_IPC = 0x10000000, 0x40000000, 0x08000000
# What of a Python's folder is the installation: its programs, headers and libraries, a compiler and a
# CUDA toolkit that are installed in it, and the file by which an environment finds its Python.
_INSTALLED = ("bin", "include", "lib", "lib32", "lib64", "libexec", "nvvm", "targets", "pyvenv.cfg")
_PACKAGES = {"site-packages", "dist-packages"}
_CAPSET = {"x86_64": 126, "aarch64": 91}
_CAPABILITIES_V3 = 0x20080522
# What a candidate may keep in its folder at once; each file has a bound of its own (`file_bytes`).
SCRATCH_BYTES, SCRATCH_ENTRIES, _SCRATCH_DEPTH = 1 << 30, 20_000, 64
# Without these a candidate could reach other processes, files or the network.
REQUIRED = ("no new privileges", "limits", "system calls", "files")


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxPart:
    """One wall: its name, whether it stands, and in what form or why not."""

    name: str
    works: bool
    detail: str


def missing_parts(parts: Iterable[SandboxPart]) -> list[str]:
    """Return a line for each wall that does not stand."""
    return [f"{part.name}: not available here ({part.detail})" for part in parts if not part.works]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What a sandboxed process may use.

    Attributes:
        single: it may not start processes or programs (a runner, not a builder).
        readable, writable: files and folders beyond the system's libraries.
        memory: bytes of address space it may take beyond what it holds when it enters; with devices of
            its own data, and as much again of shared memory (`shared_memory`), which no limit counts.
        cpu_seconds: of processor time.
        file_bytes: greatest size of a file that it writes.
        devices: character devices that it may use. A GPU's driver maps far more addresses than memory,
            so that with devices the bound is on private data, not on addresses.
    """

    single: bool
    readable: tuple[str, ...]
    writable: tuple[str, ...]
    memory: int
    cpu_seconds: int
    file_bytes: int
    devices: tuple[str, ...] = ()

    def to_json(self) -> str:
        """Return it as one line."""
        return json.dumps(asdict(self))


def system_paths() -> tuple[str, ...]:
    """Return the places that Python, torch and a compiler read: libraries, never a home.

    Of Python's own folder these are the ones of an installation: a virtual environment may lie in a
    project's root, and holds pip's settings, with the password of a package index.
    """
    torch = sys.modules.get("torch")
    return _system_paths(torch and torch.__file__, os.path.expanduser("~"))


@cache  # the fork server looks once: each child has it then
def _system_paths(torch: str | None, home: str) -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    prefixes = {sys.prefix, sys.base_prefix, sys.exec_prefix}
    parts = (*_INSTALLED, f"{os.uname().machine}-conda-linux-gnu")
    python = {os.path.join(prefix, part) for prefix in prefixes for part in parts}
    python |= {paths["stdlib"], paths["purelib"], paths["platlib"]}
    if torch:
        folder = os.path.dirname(torch)
        beside = os.path.dirname(folder)
        python.add(beside if os.path.basename(beside) in _PACKAGES else folder)
    system = ("/usr", "/lib", "/lib64", "/lib32", "/bin", "/sbin", "/nix/store", "/etc/ld.so.cache",
              "/etc/alternatives", "/proc/cpuinfo", "/proc/meminfo", "/sys/devices/system/cpu",
              "/sys/devices/system/node", "/dev/urandom", "/dev/random", "/dev/zero")  # fmt: skip
    # A Python that was installed to the root of the system, or to a home, would open all of it.
    inside = home.rstrip("/") + "/"
    narrow = {
        path for path in python if not inside.startswith(os.path.realpath(path).rstrip("/") + "/")
    }
    compiled = {sys.pycache_prefix + path for path in narrow} if sys.pycache_prefix else set()
    return tuple(sorted(narrow | set(system) | compiled))


def gpu_devices() -> tuple[str, ...]:
    """Return the character devices of this machine's NVIDIA driver."""
    return tuple(sorted(f"/dev/{name}" for name in os.listdir("/dev") if name.startswith("nvidia")))


# What CUDA's driver looks at when it starts: nothing of a user's.
_CLOCKS = ("/sys/devices/system",)  # what the device's tracer looks up when it begins
_DRIVER_PATHS = ("/proc", "/sys/bus/pci", "/sys/devices", "/sys/module", "/etc/nvidia")


def enter(cell: Cell, prepare: Callable[[], None] | None = None) -> tuple[SandboxPart, ...]:
    """Wall this process in, for good. Call it in a fresh child that has one thread.

    Args:
        prepare: run when the process has lost the network, other files and its privileges, but may
            still read /proc and make the sockets that CUDA's driver asks for when it starts. Threads
            that it starts come under the filter of system calls as well.

    Returns:
        Every part, the failed ones with their reason; the caller decides whether the rest is enough.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    own = f"/proc/{os.getpid()}"
    os.environ.clear()
    readable = (*system_paths(), *cell.readable, own, *(_CLOCKS if cell.devices else ()))
    # CUDA's driver gives its threads names, which is writing to a file of this process's own.
    writable = (*cell.writable, *cell.devices, "/dev/null", *((own,) if cell.devices else ()))
    parts = [
        _attempt("dies with its parent", lambda: _prctl(libc, _SET_PDEATHSIG, 9)),
        _attempt("no new privileges", lambda: _prctl(libc, _NO_NEW_PRIVS, 1)),
        _attempt("namespaces", lambda: _namespaces(libc, cell)),
        _attempt("limits", lambda: _limits(cell)),
        _attempt("ends first where memory is short", _first_to_end),
    ]
    if prepare is not None:
        early = (*readable, *_DRIVER_PATHS)
        parts.append(_attempt("files at first", lambda: _files(early, writable)))
        prepare()
    parts += [
        _attempt("files", lambda: _files(readable, writable)),
        _attempt("capabilities", lambda: _drop_capabilities(libc)),
        _attempt("system calls", lambda: _filter(cell)),
    ]
    return tuple(parts)


def _files(readable: tuple[str, ...], writable: tuple[str, ...]) -> str:
    return f"Landlock version {landlock.restrict(readable, writable)}"


def die_with_parent() -> None:
    """Have the kernel kill this process when the one that forked it ends."""
    _prctl(ctypes.CDLL(None, use_errno=True), _SET_PDEATHSIG, 9)


def missing(parts: tuple[SandboxPart, ...]) -> tuple[SandboxPart, ...]:
    """Return the required parts that do not stand."""
    return tuple(part for part in parts if part.name in REQUIRED and not part.works)


def overfull(folders: Iterable[str]) -> str | None:
    """Say what is too much in folders that a candidate writes to, None where nothing is.

    Args:
        folders: they may change, and vanish, meanwhile.
    """
    left, entries, size = [(folder, 0) for folder in folders], 0, 0
    while left:
        folder, depth = left.pop()
        try:
            with os.scandir(folder) as found:
                for entry in found:
                    entries += 1
                    size += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        left.append((entry.path, depth + 1))
                    if entries > SCRATCH_ENTRIES or depth > _SCRATCH_DEPTH or size > SCRATCH_BYTES:
                        break
        except OSError:
            continue
        if size > SCRATCH_BYTES:
            return f"more than {SCRATCH_BYTES >> 20} MiB"
        if entries > SCRATCH_ENTRIES:
            return f"more than {SCRATCH_ENTRIES} files"
        if depth > _SCRATCH_DEPTH:
            return f"folders {depth} deep in one another"
    return None


def shared_memory(pid: int) -> int:
    """Return the bytes of shared memory that a process has in use, 0 where it is gone.

    What a GPU's driver pins for a process is shared memory without a file.
    """
    try:
        with open(f"/proc/{pid}/status") as file:
            told = next((line for line in file if line.startswith("RssShmem:")), "")
        return int(told.split()[1]) << 10
    except (OSError, IndexError, ValueError):
        return 0


def sweep(folder: Path) -> None:
    """Remove a folder that a candidate wrote to, however deep it is."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except RecursionError:
        subprocess.run(["rm", "-rf", "--", str(folder)], capture_output=True, check=False)


def probe() -> tuple[SandboxPart, ...]:
    """Try every part in a throw-away process and return what this machine has."""
    code = (
        "import json, sys; sys.path[:] = json.loads(sys.argv[1])\n"
        "from dataclasses import asdict\n"
        "from search.sandbox.sandbox import Cell, enter\n"
        "cell = Cell(single=True, readable=(), writable=(), memory=1 << 30, cpu_seconds=10, file_bytes=1 << 20)\n"
        "print(json.dumps([asdict(part) for part in enter(cell)]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", code, json.dumps(sys.path)],
        capture_output=True, text=True, timeout=30, check=False, env={"PATH": os.defpath},
    )  # fmt: skip
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return (SandboxPart(name="sandbox", works=False, detail=f"exit {done.returncode}: {last}"),)
    return tuple(SandboxPart(**part) for part in json.loads(done.stdout))


def _attempt(name: str, step: Callable[[], str]) -> SandboxPart:
    try:
        return SandboxPart(name=name, works=True, detail=step())
    except (OSError, ValueError) as error:
        return SandboxPart(name=name, works=False, detail=str(error))


def _check(result: int) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def _prctl(libc: ctypes.CDLL, option: int, value: int) -> str:
    _check(libc.prctl(option, value, 0, 0, 0))
    return "set"


def _namespaces(libc: ctypes.CDLL, cell: Cell) -> str:
    # Memory of a device is handed over within one IPC namespace; the calls that the other kinds of
    # shared memory need are refused.
    inner = 0 if cell.devices else _NEW_IPC
    _check(libc.unshare(_NEW_USER | _NEW_NET | inner))
    return "user, network, ipc" if inner else "user, network"


def _first_to_end() -> str:
    """Have the kernel end this process before any other when memory runs out."""
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
    return "set"


def _limits(cell: Cell) -> str:
    with open("/proc/self/statm") as file:
        held = int(file.read().split()[0]) * resource.getpagesize()
    addresses = resource.RLIM_INFINITY if cell.devices else cell.memory
    for kind, value in (
        (resource.RLIMIT_AS, held + addresses if cell.single and not cell.devices else addresses),
        (resource.RLIMIT_DATA, held + cell.memory if cell.single else cell.memory),
        (resource.RLIMIT_CPU, cell.cpu_seconds),
        (resource.RLIMIT_FSIZE, cell.file_bytes),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 1024 if cell.devices else 256),
        (resource.RLIMIT_MEMLOCK, 0),
    ):
        hard = resource.getrlimit(kind)[1]
        unbound = (value, hard).count(resource.RLIM_INFINITY)
        bound = max(value, hard) if unbound == 1 else min(value, hard)
        resource.setrlimit(kind, (bound, bound))
    return f"{cell.memory >> 20} MiB, {cell.cpu_seconds} s"


def _drop_capabilities(libc: ctypes.CDLL) -> str:
    number = _CAPSET.get(os.uname().machine)
    if number is None:
        raise OSError(38, "unknown architecture")
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_V3, 0)
    none = (ctypes.c_uint32 * 6)()
    _check(libc.syscall(ctypes.c_long(number), header, none))
    return "all dropped"


def _filter(cell: Cell) -> str:
    seccomp.install(single=cell.single, devices=bool(cell.devices))
    return "one process, no sockets, no tracing" if cell.single else "no sockets, no tracing"
