"""The walls around a program that a profiler runs: fewer than a runner's, see `search.profilers.ncu`."""

from __future__ import annotations

import ctypes
import os
import resource
import sys
from typing import Any, NoReturn

from search.sandbox import landlock
from search.sandbox.sandbox import gpu_devices, system_paths

_NO_NEW_PRIVS = 38
_NEW_USER, _NEW_NET = 0x10000000, 0x40000000
_LARGEST_FILE = 4 << 30
# What CUDA's driver and a profiler look at when they start: nothing of a user's.
DRIVER = ("/proc", "/sys", "/etc/nvidia", "/etc/passwd", "/etc/nsswitch.conf", "/etc/localtime",
           "/run/nvidia-persistenced", "/opt/nvidia", "/usr/local")  # fmt: skip

SHARED = ("/dev/null", "/dev/shm")  # noqa: S108 - CUDA's own shared memory


def enclose(told: dict[str, Any]) -> NoReturn:
    """Wall this process in and become the command; say which wall is missing and end otherwise.

    Args:
        told: ``command``, ``folder`` (the only writable one), ``readable``, ``seconds``.
    """
    folder = told["folder"]
    try:
        _enter(folder, tuple(told["readable"]), int(told["seconds"]))
    except OSError as error:
        sys.stdout.write(f"WALL: {error}\n")
        sys.stdout.flush()
        os._exit(114)
    environment = {
        "PATH": os.defpath + ":/usr/local/cuda/bin",
        "HOME": folder,
        "TMPDIR": folder,
        "XDG_CACHE_HOME": folder,
        "TRITON_CACHE_DIR": os.path.join(folder, "triton"),
        "LC_ALL": "C.UTF-8",
    }
    for name in ("LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES"):
        if name in os.environ:
            environment[name] = os.environ[name]
    os.execve(told["command"][0], told["command"], environment)  # noqa: S606 - no shell


def _enter(folder: str, readable: tuple[str, ...], seconds: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    for what, result in (
        ("no new privileges", libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0)),
        ("namespaces", libc.unshare(_NEW_USER | _NEW_NET)),
    ):
        if result != 0:
            code = ctypes.get_errno()
            raise OSError(code, f"{what}: {os.strerror(code)}")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (_LARGEST_FILE, _LARGEST_FILE))
    resource.setrlimit(resource.RLIMIT_CPU, (4 * seconds, 4 * seconds))
    # CUDA's driver names its threads through /proc; the program itself narrows that to its own folder.
    writable = (folder, "/proc", *SHARED, *gpu_devices())
    landlock.restrict((*system_paths(), *DRIVER, *readable), writable)
