"""Program counters of another process, sampled by the kernel while it runs (perf_event_open(2))."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import struct
from collections import deque
from dataclasses import dataclass

from search.profilers.perf import (
    DISABLED,
    ENABLE,
    INHERIT,
    SOFTWARE,
    USER_ONLY,
    Attributes,
    open_event,
)

_TASK_CLOCK = 1
_SAMPLE_TYPE = 1 << 0 | 1 << 1 | 1 << 2  # counter, thread, time
_MAPPED, _OWN_CLOCK, _WITH_TIMES = 1 << 8, 1 << 25, 1 << 18
_MONOTONIC = 1
_SET_OUTPUT = 0x2405
_PAGES = 64  # of a buffer: an ordinary user may lock 516 KiB
_HEAD = 1024  # of the buffer's first page: positions of its writer and its reader, offset, size
_RECORD_MAPPED, _RECORD_LOST, _RECORD_SAMPLE = 1, 2, 9
_MOST_FILES = 512


@dataclass(frozen=True, slots=True)
class CounterSample:
    """One sample: when it was taken, in ns of the monotonic clock, and at which address.

    Where `address` is None, the process mapped new code then.
    """

    moment: int
    address: int | None


class Sampled:
    """Samples a process and all threads that it starts later.

    Sampling follows the processor time of each thread, so that nobody is seen oftener than he runs, and
    nothing in the process shows it.

    Args:
        pid: of the process, which stands still.
        period: nanoseconds of processor time between two samples of a thread.
    """

    def __init__(self, pid: int, period: int) -> None:
        self._pid = pid
        self._period = period
        self._files: list[int] = []
        self._buffers: list[mmap.mmap] = []
        self._read: deque[CounterSample] = deque()
        self.why = ""
        self.crowded = False  # there are more threads than can be sampled
        self.lost = 0

    def start(self) -> bool:
        """Begin; return whether the kernel permits it, else say in `why` what keeps it from that."""
        try:
            names = os.listdir(f"/proc/{self._pid}/task")
            processors = sorted(os.sched_getaffinity(self._pid))
            self.crowded = len(names) * len(processors) > _MOST_FILES
            if self.crowded:
                self.why = f"{len(names)} threads on {len(processors)} processors are too many"
                return False
            for processor in processors:
                self._open([int(name) for name in names], processor)
        except OSError as error:
            self.close()
            self.crowded = error.errno == errno.EMFILE
            self.why = error.strerror or str(error)
            return False
        for file in self._files:
            fcntl.ioctl(file, ENABLE, 0)
        return True

    def _open(self, threads: list[int], processor: int) -> None:
        """CounterSample threads on one processor into one buffer: an event that is inherited has one of its own."""
        first = None
        for thread in threads:
            wanted = Attributes(
                type=SOFTWARE,
                config=_TASK_CLOCK,
                period=self._period,
                sample_type=_SAMPLE_TYPE,
                flags=DISABLED | INHERIT | USER_ONLY | _MAPPED | _OWN_CLOCK | _WITH_TIMES,
                clock=_MONOTONIC,
            )
            file = open_event(wanted, thread, processor)
            self._files.append(file)
            if first is None:
                first = file
                self._buffers.append(mmap.mmap(file, (1 + _PAGES) * mmap.PAGESIZE))
            else:
                fcntl.ioctl(file, _SET_OUTPUT, first)

    @property
    def works(self) -> bool:
        """Whether it samples."""
        return bool(self._files)

    def between(self, start: int, end: int) -> list[CounterSample]:
        """Return the samples of a span of time, in ns of the monotonic clock, and forget all before its end.

        That code was mapped is told whenever it was, before the span and after it too.
        """
        for buffer in self._buffers:
            self._drain(buffer)
        found = [
            sample
            for sample in self._read
            if sample.address is None or start <= sample.moment <= end
        ]
        self._read = deque(
            sample for sample in self._read if sample.address is not None and sample.moment > end
        )
        return found

    def _drain(self, buffer: mmap.mmap) -> None:
        written, read, offset, size = struct.unpack_from("<QQQQ", buffer, _HEAD)
        if written == read:
            return
        at, length = read % size, written - read
        data = buffer[offset + at : offset + min(at + length, size)]
        data += buffer[offset : offset + max(at + length - size, 0)]  # it begins anew at its end
        for kind, body in _records(data):
            if kind == _RECORD_SAMPLE:
                address, _, _, moment = struct.unpack_from("<QIIQ", body)
                self._read.append(CounterSample(moment, address))
            elif kind == _RECORD_MAPPED:
                self._read.append(
                    CounterSample(struct.unpack_from("<Q", body, len(body) - 8)[0], None)
                )
            elif kind == _RECORD_LOST:
                self.lost += struct.unpack_from("<QQ", body)[1]
        struct.pack_into("<Q", buffer, _HEAD + 8, written)

    def close(self) -> None:
        """End it."""
        for buffer in self._buffers:
            buffer.close()
        for file in self._files:
            os.close(file)
        self._files, self._buffers = [], []


def _records(data: bytes) -> list[tuple[int, bytes]]:
    """Return kind and body of each record."""
    found, at = [], 0
    while at + 8 <= len(data):
        kind, _, length = struct.unpack_from("<IHH", data, at)
        if length < 8:
            break
        found.append((kind, data[at + 8 : at + length]))
        at += length
    return found
