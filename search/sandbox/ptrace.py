"""What a runner does, seen from outside: its memory, its threads, and where they are."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Sequence
from pathlib import Path

import torch

_libc = ctypes.CDLL(None, use_errno=True)
_libc.process_vm_readv.restype = _libc.process_vm_writev.restype = ctypes.c_ssize_t
_FILL = ctypes.create_string_buffer(
    b"\x7f" * (1 << 20), 1 << 20
)  # 3.4e38 as float32, no truth value
_MOST_PIECES = 64  # of one call of the system
_MOST_TEXT, _MOST_OPEN = 1 << 16, 64  # bytes of a file of the kernel's; such files


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


def overwrite(pid: int, address: int, size: int) -> None:
    """Fill another process's memory with bytes that no answer has.

    Raises:
        OSError: it is not permitted, or the memory cannot be written to.
    """
    done = 0
    while done < size:
        count = min(-(-(size - done) // len(_FILL)), _MOST_PIECES)
        local = (_Span * count)(*[_Span(ctypes.addressof(_FILL), len(_FILL))] * count)
        remote = _Span(address + done, min(size - done, count * len(_FILL)))
        written = _libc.process_vm_writev(
            ctypes.c_int(pid), local, ctypes.c_ulong(count),
            ctypes.byref(remote), ctypes.c_ulong(1), ctypes.c_ulong(0),
        )  # fmt: skip
        if written <= 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        done += written


class _KernelFiles:
    """Files of /proc that a thread has open: one is asked for several times in each call of a candidate.

    Such a file is that of the process which was there when it was opened, and of no later one with its number.
    """

    def __init__(self) -> None:
        self._open: dict[str, int] = {}

    def text(self, path: str) -> str:
        descriptor = self._open.pop(path, None)
        if descriptor is not None:
            try:
                told = os.pread(descriptor, _MOST_TEXT, 0)
            except OSError:  # it has ended; another may have its number
                os.close(descriptor)
            else:
                self._open[path] = descriptor  # as the last one used
                return told.decode()
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            told = os.pread(descriptor, _MOST_TEXT, 0)
        except OSError:
            os.close(descriptor)
            raise
        self._open[path] = descriptor
        if len(self._open) > _MOST_OPEN:
            os.close(self._open.pop(next(iter(self._open))))
        return told.decode()

    def __del__(self) -> None:
        for descriptor in self._open.values():
            os.close(descriptor)


class _OfThread(threading.local):
    """What each thread has of its own, and gives back when it ends."""

    def __init__(self) -> None:
        self.files = _KernelFiles()


_of_thread = _OfThread()


def kernel_text(pid: int | str, name: str) -> str:
    """Return what the kernel says in file `name` of ``/proc/PID``, at most 64 KiB.

    Raises:
        OSError: there is no such process or file.
    """
    return _of_thread.files.text(f"/proc/{pid}/{name}")


class SpotReader:
    """Reads a few places of another process's memory in one call of the system.

    Args:
        count: places of one reading.
        size: bytes of each.
    """

    def __init__(self, count: int, size: int) -> None:
        self._size = size
        self._bytes = ctypes.create_string_buffer(count * size)
        start = ctypes.addressof(self._bytes)
        self._local = _Span(start, count * size)
        self._remote = (_Span * count)()
        for span in self._remote:
            span.length = size

    def read(self, pid: int, addresses: Sequence[int]) -> bool:
        """Read what lies at `addresses`; False where some of it is not mapped."""
        for span, address in zip(self._remote, addresses, strict=True):
            span.base = address
        count = _libc.process_vm_readv(
            ctypes.c_int(pid), ctypes.byref(self._local), ctypes.c_ulong(1),
            self._remote, ctypes.c_ulong(len(self._remote)), ctypes.c_ulong(0),
        )  # fmt: skip
        return bool(count == self._local.length)

    def found(self) -> list[bytes]:
        """Return what was read, place by place."""
        text, size = self._bytes.raw, self._size
        return [text[at : at + size] for at in range(0, len(text), size)]


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
    told = kernel_text(pid, f"task/{pid}/status")
    # Some kernels tell more behind it.
    _, found, count = told.rpartition("nonvoluntary_ctxt_switches:")
    return int(count.split(maxsplit=1)[0]) if found else 0


def threads(pid: int) -> dict[int, int]:
    """Return the nanoseconds of processor time that each thread of `pid` has had so far."""
    found = {}
    for name in os.listdir(f"/proc/{pid}/task"):
        try:
            told = kernel_text(pid, f"task/{name}/schedstat")
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended
        found[int(name)] = int(told.split()[0])
    return found


def counter(pid: int, thread: int) -> int | None:
    """Return the address of the next instruction of a thread that stands still, None where it is not told.

    The kernel tells it of a thread that was stopped by a signal to whoever may read the process's memory
    (proc_pid_syscall(5)). Nobody traces the process, so nothing in it shows that it is looked at.
    """
    try:
        told = kernel_text(pid, f"task/{thread}/syscall").split()
    except OSError:
        return None
    # "-1 stack counter" outside the kernel; in a system call its number and six arguments come first.
    return int(told[-1], 16) if len(told) > 2 else None
