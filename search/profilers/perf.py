"""Counters of the processor and the kernel for another process, through ``perf_event_open``.

Virtual machines often have no hardware events, and containers often forbid all of them: what cannot
be opened is named with its reason, and the rest is read.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType

_SYSCALL = {"x86_64": 298, "aarch64": 241}
_HARDWARE, SOFTWARE, _CACHE = 0, 1, 3
ENABLE, _RESET = 0x2400, 0x2403  # requests of ioctl
# Read misses: cache | (operation read = 0) << 8 | (result miss = 1) << 16, from perf_event.h.
_MISSES = 1 << 16
_EVENTS: Mapping[str, tuple[int, int]] = {
    "cycles": (_HARDWARE, 0),
    "instructions": (_HARDWARE, 1),
    "branch_misses": (_HARDWARE, 5),
    "cache_misses": (_HARDWARE, 3),
    "l1d_misses": (_CACHE, _MISSES),
    "tlb_misses": (_CACHE, 3 | _MISSES),
    "page_faults": (SOFTWARE, 2),
    "context_switches": (SOFTWARE, 3),
    "task_nanoseconds": (SOFTWARE, 1),
}
DISABLED, INHERIT, USER_ONLY = 1 << 0, 1 << 1, 1 << 5 | 1 << 6
_TOTAL_TIMES = 3  # PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING
_SIZE = 112  # PERF_ATTR_SIZE_VER5, known to Linux 4.1 and later


class Attributes(ctypes.Structure):
    """What is asked of the kernel: struct perf_event_attr of perf_event_open(2)."""

    _fields_ = (
        ("type", ctypes.c_uint32),
        ("size", ctypes.c_uint32),
        ("config", ctypes.c_uint64),
        ("period", ctypes.c_uint64),
        ("sample_type", ctypes.c_uint64),
        ("read_format", ctypes.c_uint64),
        ("flags", ctypes.c_uint64),
        ("between", ctypes.c_uint8 * 44),
        ("clock", ctypes.c_int32),
        ("rest", ctypes.c_uint8 * (_SIZE - 96)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterReading:
    """What was counted, and what could not be, with the reason."""

    counts: Mapping[str, float]
    missing: Mapping[str, str]


class Counters:
    """Counts events of one process while it is entered.

    Args:
        pid: of the process, all its threads that start later included; 0 for this one.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._files: dict[str, int] = {}
        self._missing: dict[str, str] = {}

    def __enter__(self) -> Counters:
        for name, (kind, config) in _EVENTS.items():
            try:
                self._files[name] = open_event(
                    Attributes(
                        type=kind,
                        config=config,
                        read_format=_TOTAL_TIMES,
                        flags=DISABLED | INHERIT | USER_ONLY,
                    ),
                    self._pid,
                )
            except OSError as error:
                self._missing[name] = _why(error)
        for request in (_RESET, ENABLE):
            for file in self._files.values():
                fcntl.ioctl(file, request, 0)
        return self

    def read(self) -> CounterReading:
        """Return the counts so far, scaled up where an event had its counter only part of the time."""
        counts: dict[str, float] = {}
        missing = dict(self._missing)
        for name, file in self._files.items():
            value, enabled, running = struct.unpack("<QQQ", os.read(file, 24))
            if running:
                counts[name] = value * enabled / running
            elif _EVENTS[name][0] == SOFTWARE:
                counts[name] = float(value)
            else:
                missing[name] = "the processor gave it no counter"
        return CounterReading(counts=counts, missing=missing)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for file in self._files.values():
            os.close(file)
        self._files = {}


def availability() -> CounterReading:
    """Count for an instant in this process, to learn what this machine has."""
    with Counters(0) as counters:
        sum(range(1000))
        return counters.read()


def per_call(reading: CounterReading, calls: int) -> dict[str, float]:
    """Return what an outcome keeps of a reading: events of one call.

    Cycles and instructions are left out: a runner waits for its next call by spinning.
    """
    return {
        f"perf_{name}": reading.counts[name] / max(calls, 1)
        for name in ("page_faults", "cache_misses", "tlb_misses", "l1d_misses", "branch_misses")
        if name in reading.counts
    }


def open_event(attributes: Attributes, pid: int, processor: int = -1) -> int:
    """Return a descriptor of the event that `attributes` ask for.

    Args:
        pid: of a thread; 0 for this one.
        processor: that the thread is watched on, -1 for any.

    Raises:
        OSError: the kernel has no such event, or forbids it.
    """
    number = _SYSCALL.get(os.uname().machine)
    if number is None:
        raise OSError(errno.ENOSYS, "unknown architecture")
    attributes.size = _SIZE
    libc = ctypes.CDLL(None, use_errno=True)
    cloexec = 8
    file = libc.syscall(
        ctypes.c_long(number), ctypes.byref(attributes), pid, processor, -1, ctypes.c_ulong(cloexec)
    )
    if file < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return int(file)


def _why(error: OSError) -> str:
    if error.errno in {errno.EACCES, errno.EPERM}:
        return "the kernel forbids it: set kernel.perf_event_paranoid to 2 or less"
    if error.errno in {errno.ENOENT, errno.EOPNOTSUPP, errno.ENODEV}:
        return "this machine has no such counter (a virtual machine?)"
    return error.strerror or str(error)
