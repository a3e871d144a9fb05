"""Shared memory through which tensors pass between judge and runner; control words come first."""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import platform
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from search.strides import TensorLayout

# Control words, 64 bits each. A number that goes up names the call that a word speaks of.
# EMPTY: do all but the call, or make it on copies (below); PIN: whose answer stays alive to the end;
# KEEP: how many answers stay alive while the next ones are made.
PREPARE, READY, GO, DONE, STOP, FAILED, EMPTY, PIN, KEEP, POINTERS = 0, 1, 2, 3, 4, 5, 7, 8, 11, 16
NO_CALL, ON_COPIES = (
    1,
    2,
)  # values of EMPTY; with copies of the inputs, their own memory is scrubbed first
_HEAD = 4096
# futex(2): its number, operations, and a struct timespec.
_FUTEX, _FUTEX_WAIT, _FUTEX_WAKE = {"x86_64": 202, "aarch64": 98}.get(platform.machine()), 0, 1
_A_MILLISECOND, _FIVE_MILLISECONDS = (
    struct.pack("qq", 0, 1_000_000),
    struct.pack("qq", 0, 5_000_000),
)
_syscall = ctypes.CDLL(None).syscall
_syscall.argtypes = (ctypes.c_long, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint, ctypes.c_char_p)
_NAME = "kb-arena"
_ALIGN = 4096
_NO_TRUTH = 0x7F
_DTYPES = {str(value): value for value in vars(torch).values() if isinstance(value, torch.dtype)}


def plan(
    inputs: Sequence[Any], state: Mapping[str, torch.Tensor], outputs: Sequence[TensorLayout] = ()
) -> dict[str, Any]:
    """Lay the arena out; where outputs are read from the runner's own memory they have no place in it.

    Returns:
        Plain values that both sides build their views from: ``size``, ``inputs`` (a slot, or
        ``{"value": x}`` for a scalar), ``state`` (name -> slot), ``outputs``.
    """
    offset = _HEAD

    def slot(layout: TensorLayout) -> dict[str, Any]:
        nonlocal offset
        placed = {
            "offset": offset,
            "shape": list(layout.shape),
            "strides": list(layout.strides),
            "dtype": str(layout.dtype),
        }
        offset += -(-max(layout.nbytes, 1) // _ALIGN) * _ALIGN
        return placed

    described = {
        "inputs": [
            slot(TensorLayout.of(x)) if isinstance(x, torch.Tensor) else {"value": x}
            for x in inputs
        ],
        "state": {name: slot(_contiguous(value)) for name, value in state.items()},
        "outputs": [slot(layout) for layout in outputs],
    }
    return {"size": offset, **described}


def _contiguous(tensor: torch.Tensor) -> TensorLayout:
    return TensorLayout.of(tensor.detach().contiguous())


class Arena:
    """One side's view of the shared memory.

    Args:
        fd: of the memory, which stays open as long as the arena.
        layout: from `plan`.
    """

    def __init__(self, fd: int, layout: Mapping[str, Any]) -> None:
        self.fd = fd
        self._map = mmap.mmap(fd, int(layout["size"]))
        self._start = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        self.words = memoryview(self._map)[:_HEAD].cast("Q")
        self.inputs = tuple(
            value["value"] if "value" in value else self._view(value) for value in layout["inputs"]
        )
        self.state = {name: self._view(value) for name, value in layout["state"].items()}
        self.outputs = tuple(self._view(value) for value in layout["outputs"])

    @classmethod
    def create(cls, layout: Mapping[str, Any]) -> Arena:
        """Make the memory."""
        fd = os.memfd_create(_NAME, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(fd, int(layout["size"]))
        import fcntl

        # A candidate that shrank it would kill the judge with SIGBUS.
        fcntl.fcntl(fd, 1033, 0x2 | 0x4 | 0x1)  # F_ADD_SEALS: SHRINK, GROW, SEAL
        return cls(fd, layout)

    def wait(self, word: int, known: int, *, longer: bool = False) -> None:
        """Leave the processor until `wake` is called for a control word or it is another than `known`.

        Judge and runner wait like this where they have one processor; who spins there keeps it from the other.

        Args:
            longer: at most five milliseconds in place of one.
        """
        limit = _FIVE_MILLISECONDS if longer else _A_MILLISECOND
        self._futex(word, _FUTEX_WAIT, known & 0xFFFFFFFF, limit)

    def wake(self, word: int) -> None:
        """Wake whoever waits for a control word."""
        self._futex(word, _FUTEX_WAKE, 1, None)

    def _futex(self, word: int, operation: int, value: int, longest: bytes | None) -> None:
        if _FUTEX is None:
            os.sched_yield()
        else:
            _syscall(_FUTEX, self._start + 8 * word, operation, value, longest)

    def _view(self, slot: Mapping[str, Any]) -> torch.Tensor:
        dtype = _DTYPES[slot["dtype"]]
        shape, strides = tuple(slot["shape"]), tuple(slot["strides"])
        count = torch.Size(shape).numel()
        if count == 0:
            return torch.empty(shape, dtype=dtype)
        flat = torch.frombuffer(self._map, dtype=dtype, count=count, offset=slot["offset"])
        return flat.as_strided(shape, strides)

    def clear(self) -> None:
        """Write zeros over all of it: what one candidate leaves, no other may find."""
        torch.frombuffer(self._map, dtype=torch.uint8).zero_()

    def close(self) -> None:
        """Give the descriptor back; the memory goes when the last view does."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def scrub(tensors: Sequence[Any]) -> None:
    """Write NaN over every floating-point tensor; whole numbers stay, for a program may use them as places."""
    for value in tensors:
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            value.fill_(float("nan"))


def poison(tensor: torch.Tensor) -> None:
    """Write what no answer holds: NaN, the greatest integer, a byte that is no truth value."""
    if tensor.is_floating_point():
        tensor.fill_(float("nan"))
    elif tensor.dtype is torch.bool:
        tensor.view(torch.uint8).fill_(_NO_TRUTH)
    else:
        tensor.fill_(torch.iinfo(tensor.dtype).max)


def poisoned(tensor: torch.Tensor) -> bool:
    """Say whether all of a tensor is as `poison` left it."""
    if tensor.is_floating_point():
        return bool(tensor.isnan().all())
    if tensor.dtype is torch.bool:
        return bool((tensor.view(torch.uint8) == _NO_TRUTH).all())
    return bool((tensor == torch.iinfo(tensor.dtype).max).all())


# Of `struct procmap_query`: what is asked of the kernel about one address, and the offsets of what it answers.
_PROCMAP_QUERY, _QUERY_BYTES = 0xC0686611, 104
_MAP_SHARED = 8  # in the flags of a mapping


def is_private(pid: int, spans: Iterable[tuple[int, int]]) -> bool:
    """Say whether spans (address, bytes) of a process lie in memory that it shares with nobody, and that shows no file.

    Only some kernels (Linux 6.11) tell that of an address; the list of all mappings takes a hundred times as long. Where
    it is not told, the answer is False.
    """
    asked = bytearray(_QUERY_BYTES)
    try:
        maps = os.open(f"/proc/{pid}/maps", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        for address, size in spans:
            at, end = address, address + size
            while at < end:
                asked[:24] = struct.pack("QQQ", _QUERY_BYTES, 0, at)
                fcntl.ioctl(maps, _PROCMAP_QUERY, asked)
                _, _, _, _, after, flags, _, _, file = struct.unpack_from("9Q", asked)
                if flags & _MAP_SHARED or file:
                    return False
                at = after
    except OSError:
        return False
    finally:
        os.close(maps)
    return True


def mappings(pid: int) -> list[tuple[int, int]]:
    """Return where (start, end) process `pid` has mapped an arena, as the kernel says."""
    return [span for span, kind in _mapped(pid) if kind == "arena"]


def shared_pages(pid: int) -> list[tuple[int, int]]:
    """Return where process `pid` has mapped memory, no arena, that may lie at several addresses."""
    return [span for span, kind in _mapped(pid) if kind == "shared"]


def _mapped(pid: int) -> Iterator[tuple[tuple[int, int], str]]:
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        place, permissions, _, _, _, *path = line.split(maxsplit=5)
        name = path[0] if path else ""
        arena = name.startswith(
            f"/memfd:{_NAME}"
        )  # of a private mapping too: it shows what nobody wrote to
        if arena or permissions[3] == "s":
            start, _, end = place.partition("-")
            yield (int(start, 16), int(end, 16)), "arena" if arena else "shared"


_libc = ctypes.CDLL(None)


def keep_freed_memory(perturb: int | None = None) -> None:
    """Make glibc keep what is freed, so that no process pays page faults which another does not.

    Args:
        perturb: where given, the byte that fills memory as it is freed, and whose complement fills fresh
            memory (0 fills nothing).
    """
    if not hasattr(_libc, "mallopt"):
        return
    if perturb is None:
        _libc.mallopt(-4, 0)  # M_MMAP_MAX: large blocks come from the heap too
        _libc.mallopt(-1, -1)  # M_TRIM_THRESHOLD: the heap never shrinks
    else:
        _libc.mallopt(-6, perturb)  # M_PERTURB
