"""Device memory that two processes share: the driver's IPC handles, seen as tensors."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

import torch

from kb.errors import TaskError
from search.reference import Problem
from search.sandbox.faults import Fault
from search.sandbox.shared_memory import _DTYPES, Arena
from search.strides import TensorLayout

_HANDLE = 64  # bytes of a CUipcMemHandle
_ALIGN = 512  # what the framework's own allocator aligns to
_PAGE = 2 << 20  # bytes that the driver shares at least: what else it put there would be seen
_FULL = 2  # CUDA_ERROR_OUT_OF_MEMORY
_CONTEXTS = 4 << 30  # bytes of the device's for five processes
_SHARE = 8  # of the free memory, one part in so many
_MOST_ROOM = 8 << 30  # bytes
_SURE = 0.8  # of the free memory
_LAZY = 1  # CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS


class _Handle(ctypes.Structure):
    _fields_ = (("reserved", ctypes.c_char * _HANDLE),)


@cache
def _driver() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


def _check(code: int, what: str) -> None:
    if code:
        text = ctypes.c_char_p()
        _driver().cuGetErrorString(code, ctypes.byref(text))
        told = (text.value or b"unknown").decode()
        raise RuntimeError(f"{what}: CUDA driver error {code} ({told})")


class DeviceRegion:
    """One allocation on the device; its maker frees it, others only look.

    Args:
        address: device pointer.
        own: whether this process allocated it.
    """

    def __init__(self, address: int, nbytes: int, *, own: bool) -> None:
        self._address, self._own = address, own
        self.nbytes = nbytes
        self.__cuda_array_interface__ = {
            "shape": (nbytes,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 2,
        }

    @classmethod
    def create(cls, nbytes: int) -> DeviceRegion:
        """Allocate `nbytes` outside the framework's pool, so that all of it can be shared.

        Raises:
            torch.OutOfMemoryError: the device has no room.
        """
        torch.cuda.current_stream()  # the primary context is made current by the framework
        pointer = ctypes.c_void_p()
        size = ctypes.c_size_t(-(-nbytes // _PAGE) * _PAGE)
        code = _driver().cuMemAlloc_v2(ctypes.byref(pointer), size)
        if code == _FULL:
            raise torch.OutOfMemoryError(f"CUDA out of memory: no {nbytes >> 20} MiB in one piece")
        _check(code, f"allocating {nbytes} bytes")
        assert pointer.value is not None
        return cls(pointer.value, nbytes, own=True)

    @classmethod
    def open(cls, handle: str, nbytes: int) -> DeviceRegion:
        """Map what another process shared under `handle`."""
        wanted = _Handle.from_buffer_copy(bytes.fromhex(handle))
        pointer = ctypes.c_void_p()
        code = _driver().cuIpcOpenMemHandle_v2(ctypes.byref(pointer), wanted, ctypes.c_uint(_LAZY))
        _check(code, "opening the judge's memory")
        assert pointer.value is not None
        return cls(pointer.value, nbytes, own=False)

    @property
    def address(self) -> int:
        """Device pointer, in this process."""
        return self._address

    def handle(self) -> str:
        """Return what another process opens it by."""
        handle = _Handle()
        pointer = ctypes.c_void_p(self._address)
        _check(_driver().cuIpcGetMemHandle(ctypes.byref(handle), pointer), "sharing memory")
        return bytes(handle).hex()

    def bytes(self) -> torch.Tensor:
        """Return all of it as one tensor of bytes, without a copy."""
        return torch.as_tensor(self, device="cuda")

    def close(self) -> None:
        """Free it; views of it must not be used any more."""
        if self._own and self._address:
            torch.cuda.synchronize()
            _driver().cuMemFree_v2(ctypes.c_void_p(self._address))
        self._address = 0


def plan(
    inputs: Sequence[Any],
    state: Mapping[str, torch.Tensor],
    outputs: Sequence[TensorLayout],
    sets: int,
) -> dict[str, Any]:
    """Lay two regions out: `sets` rows of inputs with a row of outputs each, and the parameters.

    Returns:
        Plain values: ``size``, ``sets``, ``results`` (lists of slots), ``again`` (a row for the first answer
        as it is when the last has been made; where a batch has one call, the place of its answer, which the
        judge has copied by then), ``scarce`` (a batch has one call, because memory is), and of the other region
        ``state_size`` and ``state`` (name -> slot).
    """

    def row() -> list[dict[str, Any]]:
        return [
            slot(TensorLayout.of(x)) if isinstance(x, torch.Tensor) else {"value": x}
            for x in inputs
        ]

    slot, size = _slots()
    calls = [row() for _ in range(sets)]
    results = [[slot(layout) for layout in outputs] for _ in range(sets)]
    again = results[0] if sets == 1 else [slot(layout) for layout in outputs]
    place, state_size = _slots()
    kept = {name: place(TensorLayout.of(x.detach().contiguous())) for name, x in state.items()}
    return {
        "sets": calls, "results": results, "again": again, "size": size(),
        "state": kept, "state_size": max(state_size(), 1), "scarce": sets == 1,
    }  # fmt: skip


def _slots() -> tuple[Callable[[TensorLayout], dict[str, Any]], Callable[[], int]]:
    """Return what gives each tensor its place after the last, and what says where the next would be."""
    offset = 0

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

    return slot, lambda: offset


def set_bytes(inputs: Sequence[Any], outputs: Sequence[TensorLayout]) -> int:
    """Return the bytes of one row of inputs and outputs."""
    given = sum(x.nbytes for x in inputs if isinstance(x, torch.Tensor))
    return given + sum(layout.nbytes for layout in outputs)


def most_bytes(inputs: Sequence[Any], outputs: Sequence[TensorLayout], sets: int) -> int:
    """Return the bytes that judging in batches of `sets` calls takes beside the task's own inputs.

    Each of two regions has the sets and a place for the first answer. Beside them the judge has the answers of a batch, two draws
    of inputs, the framework's answer and what comparing takes; eager, ``torch.compile`` and the candidate have an answer each,
    the candidate one more for each call. The truth of an answer that is not near takes inputs twice and answers four times.

    Of one call there is one region for all, and programs give back what they do not hold after each batch. While a call is made, the
    judge has room for its answer, the candidate has its own and the one before; before and after it the judge has a draw of
    inputs, and the candidate or the judge one answer less. The framework's answer, the truth and the bounds are not counted:
    where rows stand apart, they are found for some of them at a time.
    """
    given = set_bytes(inputs, ())
    answers = set_bytes((), outputs)
    if sets == 1:
        return max(2 * given + 3 * answers, given + 4 * answers) + _CONTEXTS
    regions = 2 * (sets * (given + answers) + answers)
    held = regions + sets * answers + 2 * given + 3 * answers + (3 + sets) * answers
    return held + 2 * (2 * given + 4 * answers) + _CONTEXTS


Regions = tuple[DeviceRegion, DeviceRegion]  # of calls, and of parameters


class JudgeMemory:
    """The device memory of a judge: the candidates', the baselines', and what is written to empty the caches.

    Candidates take turns with two places, for a program that was killed may write to its own until it is gone; without room,
    there is one. Where memory is scarce, candidates and baselines take turns with one place for their calls.

    Args:
        layout: from `plan`.
        flush: bytes that are written between calls.
        room: bytes that a second place for candidates may take.

    Raises:
        torch.OutOfMemoryError: the device has no room; nothing stays allocated.
    """

    def __init__(self, layout: Mapping[str, Any], flush: int, room: int) -> None:
        self._made: list[DeviceRegion] = []
        size, state = layout["size"], layout["state_size"]
        try:
            calls = self._region(size)
            self.candidates: tuple[Regions, ...] = ((calls, self._region(state)),)
            other = calls if layout["scarce"] else self._region(size)
            self.baselines: Regions = (other, self._region(state))
            self.flush = self._region(flush)
        except BaseException:
            self.close()
            raise
        if not layout["scarce"] and size + state <= room:
            made = [*self._made]
            try:
                self.candidates += ((self._region(size), self._region(state)),)
            except torch.OutOfMemoryError:  # somebody else has taken it meanwhile
                while self._made != made:
                    self._made.pop().close()

    def _region(self, nbytes: int) -> DeviceRegion:
        made = DeviceRegion.create(nbytes)
        self._made.append(made)
        return made

    def handles(self, regions: Regions) -> dict[str, Any]:
        """Return what a runner opens regions by, and the memory between calls."""
        calls, parameters = regions
        return {
            "handle": calls.handle(), "state_handle": parameters.handle(),
            "flush": self.flush.handle(), "flush_size": self.flush.nbytes,
        }  # fmt: skip

    def close(self) -> None:
        """Free all of it."""
        while self._made:
            self._made.pop().close()


class CudaArena(Arena):
    """One side's view of its regions, with the control words in host memory.

    Args:
        words: host memory shared by both sides, of which only the head is used.
        regions: device memory of ``layout["size"]`` and of ``layout["state_size"]`` bytes.
    """

    def __init__(self, words: Arena, regions: Regions, layout: Mapping[str, Any]) -> None:
        self._host, self._regions = words, regions
        self.fd = words.fd
        self.words = words.words
        flat, parameters = (region.bytes() for region in regions)
        self.sets = tuple(
            tuple(value["value"] if "value" in value else tensor_at(flat, value) for value in row)
            for row in layout["sets"]
        )
        self.results = tuple(
            tuple(tensor_at(flat, value) for value in row) for row in layout["results"]
        )
        self.again = tuple(tensor_at(flat, value) for value in layout["again"])
        self.state = {name: tensor_at(parameters, value) for name, value in layout["state"].items()}
        self.inputs, self.outputs = self.sets[0], self.results[0]

    def holds(self, address: int) -> bool:
        """Say whether an address of the device lies in it."""
        return any(
            region.address <= address < region.address + region.nbytes for region in self._regions
        )

    def clear(self) -> None:
        """Write zeros over all of it: what one candidate leaves, no other may find."""
        for region in self._regions:
            region.bytes().zero_()
        self.words[:] = memoryview(bytearray(8 * len(self.words))).cast("Q")
        torch.cuda.synchronize()

    def close(self) -> None:
        """Give the memory back."""
        self.sets, self.results, self.again, self.state = (), (), (), {}
        self.inputs, self.outputs = (), ()
        for region in self._regions:
            region.close()
        self._host.close()


def tensor_at(flat: torch.Tensor, slot: Mapping[str, Any]) -> torch.Tensor:
    """Return the tensor that a slot of `plan` says, in the memory of `flat`."""
    dtype = _DTYPES[slot["dtype"]]
    shape, strides = tuple(slot["shape"]), tuple(slot["strides"])
    nbytes = torch.Size(shape).numel() * dtype.itemsize
    if nbytes == 0:
        return torch.empty(shape, dtype=dtype, device="cuda")
    piece = flat[slot["offset"] : slot["offset"] + nbytes].view(dtype)
    return piece.as_strided(shape, strides, piece.storage_offset())


def end_of(slot: Mapping[str, Any]) -> int:
    """Return the offset at which a slot ends."""
    nbytes = torch.Size(slot["shape"]).numel() * int(_DTYPES[slot["dtype"]].itemsize)
    return int(slot["offset"]) + nbytes


def free_memory() -> int:
    """Return the bytes of the device that nobody holds, this process's garbage given back."""
    gc.collect()
    torch.cuda.empty_cache()
    return int(torch.cuda.mem_get_info()[0])


def give_back() -> None:
    """Give memory that no tensor uses back to the device: whoever judges next may need all of it."""
    with suppress(torch.AcceleratorError):  # after a failed kernel nothing can be given back
        torch.cuda.empty_cache()


def memory_told() -> str:
    """Say in a line who holds the device's memory: a candidate that finds none left did not take it all."""
    free, total = torch.cuda.mem_get_info()
    own, cached = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    return (
        f"device memory: {free >> 20} of {total >> 20} MiB are free without it; the judge's tensors take {own >> 20} MiB "
        f"of the {cached >> 20} that it keeps, besides what it shares"
    )


def memory_room() -> int:
    """Return the bytes that sets of calls may take, and trials as well: more would gain nothing."""
    return min(free_memory() // _SHARE, _MOST_ROOM)


def choose_sets(problem: Problem, most: int) -> int:
    """Return how many calls a batch has: one where two do not fit beside what programs allocate.

    Args:
        most: calls that it may have; one has programs share memory as where there is too little.

    Raises:
        TaskError: the device has no room for one.
    """
    one = max(set_bytes(problem.inputs, problem.outputs), 1)
    sets = min(most, memory_room() // one)
    if sets >= 2:
        return sets
    free = free_memory()
    for sets in range(min(most, 2), 0, -1):
        wanted = most_bytes(problem.inputs, problem.outputs, sets)
        # What is worked out leaves out gaps between allocations: one call is better than a second that may not fit.
        if wanted <= (free if sets == 1 else _SURE * free):
            return sets
    raise TaskError(
        f"{problem.task.reference}: inputs and outputs take {one >> 20} MiB, judging needs {wanted >> 20} MiB and "
        f"{free >> 20} MiB of the device are free: make the inputs smaller, or end what else uses the device"
    )


def unprepared(error: torch.OutOfMemoryError | Fault) -> str:
    """Say in a line why a task cannot be judged here: its tensors do not fit, or a baseline has died."""
    if isinstance(error, Fault):
        found = getattr(error.outcome, "reason", "") or error.outcome.kind
        return f"a baseline ended while it was timed ({found}): is the device's memory used up?"
    found = str(error).split(". ")[0]
    advice = "make the inputs smaller, or end what else uses the device"
    return f"the device has no memory left to judge it ({found}): {advice}"
