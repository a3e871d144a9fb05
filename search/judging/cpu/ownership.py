"""Whose code a process runs: its own builds', a library's, the interpreter's, or nobody's, as kernel and bytes say."""

from __future__ import annotations

import bisect
import mmap
import os
import re
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import torch

from search.sandbox.ptrace import peek

Owner = Literal["own", "library", "interpreter", "nobody"]
_LINE = 64  # bytes of code that are compared where a thread is met
_SYSTEM = ("/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/")
# What a candidate needs whoever computes: the C library and compilers' own run-time libraries.
_RUNTIME = re.compile(
    r"(lib(c|m|mvec|pthread|dl|rt|ffi|gcc_s|stdc\+\+|gomp|omp|iomp5)|ld-linux[\w-]*)[-.]"
)
# Of torch: its OpenMP threads, its bindings and its allocator, in none of which anything is computed.
_TORCH = re.compile(r".*/torch/lib/lib(gomp|torch_python|c10)[-.][^/]*")
_VDSO = "[vdso]"


@dataclass(frozen=True, slots=True)
class _Span:
    start: int
    end: int
    offset: int
    path: str
    writable: bool


class Code:
    """The executable memory of one process.

    Code that no file is behind, such as what oneDNN makes at run time, is a library's: a candidate has no
    reason to. A mapping's name is not believed: the bytes must be those of the file.

    Args:
        own: paths of the shared objects that the judge built from the candidate's source.
    """

    def __init__(self, pid: int, own: Sequence[str]) -> None:
        self._pid = pid
        self._own = {os.path.realpath(path) for path in own}
        self._spans: list[_Span] = []

    def owner(self, address: int) -> Owner:
        """Return whose instruction lies at `address`; the process must stand still.

        Raises:
            OSError: its memory cannot be read.
        """
        span = self._span(address)
        owner = self._named(span)
        if span is None or owner == "library":
            return "library"
        start = max(span.start, address // _LINE * _LINE)
        return owner if self._as_in_file(span, start, min(span.end, start + _LINE)) else "library"

    def changed(self) -> frozenset[tuple[int, int]]:
        """Return (start, end) of the code that is not what its file holds, its owner being no library."""
        self._read()
        return frozenset(
            (span.start, span.end)
            for span in self._spans
            if self._named(span) != "library"
            and (span.writable or not self._as_in_file(span, span.start, span.end))
        )

    def named(self, address: int) -> Owner:
        """Return whose instruction lies at `address` by the name of its mapping alone."""
        return self._named(self._span(address))

    def _span(self, address: int) -> _Span | None:
        found = self._find(address)
        if found is None:
            self._read()
            found = self._find(address)
        return found

    def _find(self, address: int) -> _Span | None:
        at = bisect.bisect_right(self._spans, address, key=lambda span: span.start) - 1
        return self._spans[at] if at >= 0 and address < self._spans[at].end else None

    def _read(self) -> None:
        self._spans = []
        for line in Path(f"/proc/{self._pid}/maps").read_text().splitlines():
            fields = line.split(maxsplit=5)
            if "x" not in fields[1]:
                continue
            start, _, end = fields[0].partition("-")
            path = fields[5] if len(fields) > 5 else ""
            span = _Span(int(start, 16), int(end, 16), int(fields[2], 16), path, "w" in fields[1])
            self._spans.append(span)

    def _named(self, span: _Span | None) -> Owner:
        if span is None or not span.path:
            return "library"
        if span.path in self._own:
            return "own"
        return _neutral(span.path) or "library"

    def _as_in_file(self, span: _Span, start: int, end: int) -> bool:
        there = torch.empty(end - start, dtype=torch.uint8)
        peek(self._pid, start, there)
        held = _vdso() if span.path == _VDSO else _content(span.path)
        at = start - span.start + span.offset
        wanted = held[at : at + end - start]
        # Beyond the end of a file, its last page holds zeros.
        return there.numpy().tobytes() == wanted.ljust(end - start, b"\0")


@cache
def _neutral(path: str) -> Owner | None:
    """Return whose code of this file is that computes nothing, None where it is a library's."""
    folder, name = os.path.split(path)
    if path == os.path.realpath(sys.executable) or folder in _extension_folders():
        return "interpreter"
    if path == _VDSO or _TORCH.fullmatch(path):
        return "nobody"
    own = tuple(
        os.path.realpath(Path(prefix) / "lib") + "/" for prefix in (sys.prefix, sys.base_prefix)
    )
    if "-packages/" in path or not path.startswith((*_SYSTEM, *own)):
        return None
    if name.startswith("libpython"):
        return "interpreter"
    return "nobody" if _RUNTIME.match(name) else None


@cache
def _extension_folders() -> frozenset[str]:
    """Return where the interpreter's own extension modules lie, a virtual environment's base included."""
    found = [Path(sysconfig.get_path("platstdlib")) / "lib-dynload"]
    if (spec := find_spec("_ctypes")) is not None and spec.has_location and spec.origin:
        found.append(Path(spec.origin).parent)
    return frozenset(os.path.realpath(folder) for folder in found)


@cache
def _content(path: str) -> bytes | mmap.mmap:
    try:
        with Path(path).open("rb") as file:
            return mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    except (OSError, ValueError):
        return b""


@cache
def _vdso() -> bytes:
    """Return this process's own: the kernel gives the same one to all."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        if line.endswith(_VDSO):
            start, _, end = line.split(maxsplit=1)[0].partition("-")
            there = torch.empty(int(end, 16) - int(start, 16), dtype=torch.uint8)
            peek(os.getpid(), int(start, 16), there)
            return there.numpy().tobytes()
    return b""
