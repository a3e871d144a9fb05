"""What the kernel says of another process's time; nothing here is told by the process itself."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import threading
import time

from search.sandbox.ptrace import kernel_text

_SET_ATTRIBUTES = {"x86_64": 314, "aarch64": 274}  # sched_setattr
_libc = ctypes.CDLL(None, use_errno=True)


def cpu_time(pid: int) -> int:
    """Return the nanoseconds of processor time that all threads of `pid` have had, ended ones included.

    It is exact while the process stands still. Linux derives a clock's number from the process id
    (clock_getcpuclockid(3)).

    Raises:
        OSError: there is no such process, or the kernel has no such clock.
    """
    return time.clock_gettime_ns((~pid << 3) | 2)


def settle(pid: int, seconds: float) -> bool:
    """Wait until every thread of a process that was stopped has left its processor; False where one has not.

    A thread shows as stopped a little before it is: on a busy machine it may lose its processor in between,
    and get it back later for the rest of the way. The kernel waits for that when it is asked what a
    thread is doing (Linux, lib/syscall.c), and says "running" where it is not stopped.
    """
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            told = [_doing(pid, name) for name in os.listdir(f"/proc/{pid}/task")]
        except (FileNotFoundError, ProcessLookupError):
            return False
        if "running" not in told:
            return True
    return False


def _doing(pid: int, thread: str) -> str:
    try:
        return kernel_text(pid, f"task/{thread}/syscall").strip()
    except (FileNotFoundError, ProcessLookupError):
        return "gone"


def check_clocks(pid: int) -> None:
    """See that this kernel tells what judging needs to know of a process.

    Raises:
        OSError: it does not.
    """
    cpu_time(pid)
    kernel_text(pid, f"task/{pid}/syscall")


def waited(pid: int) -> int:
    """Return the nanoseconds that the main thread of `pid` could run and had no processor; 0 if not told."""
    try:
        fields = kernel_text(pid, f"task/{pid}/schedstat").split()
    except OSError:
        return 0  # kernels without CONFIG_SCHED_INFO
    return int(fields[1])


def waited_here() -> int:
    """Return the nanoseconds that this thread could run and had no processor; 0 if not told."""
    try:
        told = kernel_text(os.getpid(), f"task/{threading.get_native_id()}/schedstat")
        return int(told.split()[1])
    except OSError:
        return 0


def wake_soon(pid: int, slice_ns: int = 500_000) -> None:
    """Ask the kernel to give `pid` a processor soon after it wakes, at the price of shorter turns.

    Since Linux 6.12 a task may ask for its own time slice (sched(7), sched_setattr(2)), and one that wakes
    with a shorter one goes before those that run. Beside twelve other processes on two cores, waking took
    21 to 70 us with a slice of 100 us and up to 24 ms without. Older kernels take no notice.

    Args:
        pid: a process, or 0 for this thread.
        slice_ns: 0 for the kernel's own choice again.
    """
    number = _SET_ATTRIBUTES.get(platform.machine())
    if number is None:
        return
    # struct sched_attr: size, policy (0: other), flags, nice, priority, runtime, deadline, period.
    nice = os.getpriority(os.PRIO_PROCESS, pid)
    wanted = struct.pack("<IIQiIQQQ", 48, 0, 0, nice, 0, slice_ns, 0, 0)
    _libc.syscall(ctypes.c_long(number), ctypes.c_int(pid), wanted, ctypes.c_uint(0))
