"""What a runner does, seen from outside: its memory, and where its program counter is."""

from __future__ import annotations

import bisect
import ctypes
import os
import platform
from collections.abc import Sequence
from pathlib import Path

import torch

_SEIZE, _INTERRUPT, _CONT, _DETACH, _GETREGSET = 0x4206, 0x4207, 7, 17, 0x4204
_NT_PRSTATUS = 1
_WALL = 0x40000000
# Position of the program counter in the general registers, in words.
_COUNTER = {"x86_64": 16, "aarch64": 32}
_FEWEST = 8

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.restype = ctypes.c_long
_libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
_libc.process_vm_readv.restype = ctypes.c_ssize_t


class _Span(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def peek(pid: int, address: int, into: torch.Tensor) -> None:
    """Read another process's memory at `address` into the whole of `into`, which is dense.

    Raises:
        OSError: it is not permitted, or the address is not mapped.
    """
    done = 0
    while done < into.nbytes:
        local = _Span(into.data_ptr() + done, into.nbytes - done)
        remote = _Span(address + done, into.nbytes - done)
        count = _libc.process_vm_readv(
            ctypes.c_int(pid), ctypes.byref(local), ctypes.c_ulong(1),
            ctypes.byref(remote), ctypes.c_ulong(1), ctypes.c_ulong(0),
        )  # fmt: skip
        if count <= 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        done += count


def check_peek(pid: int) -> None:
    """See that the memory of a child process can be read.

    Raises:
        OSError: it is not permitted here.
    """
    with Path(f"/proc/{pid}/maps").open() as maps:
        address = int(maps.readline().partition("-")[0], 16)
    peek(pid, address, torch.empty(8, dtype=torch.uint8))


def preemptions(pid: int) -> int:
    """Return how often the main thread of `pid` had its processor taken away."""
    for line in Path(f"/proc/{pid}/task/{pid}/status").read_text().splitlines():
        if line.startswith("nonvoluntary_ctxt_switches"):
            return int(line.partition(":")[2])
    return 0


class Sampler:
    """Looks at where the threads of another process are.

    They are stopped for each look and their program counters read; looked up in the process's memory
    map, these cannot lie about whose code they are in. Use it from one thread.

    Raises:
        OSError: tracing is not permitted here.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._threads: list[int] = []
        self._counters: list[int] = []
        self._word = _COUNTER.get(platform.machine())

    def __enter__(self) -> Sampler:
        if self._word is None:
            raise OSError(38, "unknown architecture")
        try:
            for name in os.listdir(f"/proc/{self._pid}/task"):
                _trace(_SEIZE, int(name), None)
                self._threads.append(int(name))
        except OSError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for thread in self._threads:
            _release(thread)
        self._threads.clear()

    def look(self) -> None:
        """Note where every thread is."""
        assert self._word is not None
        self._counters += [_where(thread, self._word) for thread in self._threads]

    @property
    def looks(self) -> int:
        """How many program counters were noted."""
        return len(self._counters)

    def share(self, own: Sequence[str]) -> float | None:
        """Return own / (own + library), None where too few looks met either.

        Time in the interpreter or in the C library counts for neither side.

        Args:
            own: paths of the shared objects that the candidate brought.
        """
        return _share(self._pid, own, self._counters)


def _where(thread: int, word: int) -> int:
    _trace(_INTERRUPT, thread, None)
    os.waitpid(thread, _WALL)
    registers = (ctypes.c_uint64 * 64)()
    span = _Span(ctypes.addressof(registers), ctypes.sizeof(registers))
    _trace(_GETREGSET, thread, ctypes.addressof(span), _NT_PRSTATUS)
    _trace(_CONT, thread, None)
    return int(registers[word])


def _release(thread: int) -> None:
    try:
        _trace(_INTERRUPT, thread, None)
        os.waitpid(thread, _WALL)
        _trace(_DETACH, thread, None)
    except (OSError, ChildProcessError):
        return  # it has ended


def _trace(request: int, thread: int, data: int | None, address: int | None = None) -> None:
    if _libc.ptrace(request, thread, address, data) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _share(pid: int, own: Sequence[str], counters: Sequence[int]) -> float | None:
    starts, ends, names = [], [], []
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        fields = line.split(maxsplit=5)
        if "x" not in fields[1]:
            continue
        start, _, end = fields[0].partition("-")
        starts.append(int(start, 16))
        ends.append(int(end, 16))
        names.append(fields[5] if len(fields) > 5 else "")
    mine = library = 0
    real = {os.path.realpath(path) for path in own}
    for counter in counters:
        at = bisect.bisect_right(starts, counter) - 1
        name = names[at] if at >= 0 and counter < ends[at] else "[unknown]"
        if name in real:
            mine += 1
        elif _is_library(name):
            library += 1
    return mine / (mine + library) if mine + library >= _FEWEST else None


def _is_library(name: str) -> bool:
    """Say whether code at a mapping called `name` computes for a library.

    Code without a file is what oneDNN generates at run time; a candidate has no reason to.
    """
    if name in {"", "[unknown]"}:
        return True
    base = os.path.basename(name)
    return ("site-packages" in name or "dist-packages" in name) and "libgomp" not in base
