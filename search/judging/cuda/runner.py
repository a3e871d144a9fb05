"""The process that holds a candidate on a GPU. It obeys the judge and is trusted by nobody."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import time
from importlib import import_module
from itertools import pairwise
from statistics import fmean
from typing import Any

import torch
import torch.utils.cpp_extension

# Imported here, before the walls: a runner may read the libraries, not the files of this project.
import kb.runtime.cuda
import kb.runtime.launch
import kb.runtime.nvcc
import kb.runtime.signature
import kb.runtime.tma
import kb.runtime.torch_inline
from search.judging.cuda import cute_hooks, triton_hooks
from search.judging.cuda.memory import CudaArena, DeviceRegion
from search.languages.cute import imports_cute
from search.profilers.capture import capture, warm_up
from search.sandbox.runner import Runner, described
from search.sandbox.shared_memory import (
    DONE,
    EMPTY,
    FAILED,
    GO,
    PREPARE,
    READY,
    STOP,
    Arena,
    poison,
)

# Control words beside those of the arena; the times of a batch's calls follow as doubles.
# TAKEN: where memory is scarce, whose answer the judge has copied. RELEASE: give memory back after the batch. BETWEEN: the ns
# from the end of a call to the start of the next, by their events.
COUNT, FLUSHES, TOLD, HOST, TAKEN, RELEASE, BETWEEN, TIMES = 6, 8, 9, 10, 12, 13, 14, 64
SMALLEST = 2  # value of EMPTY: the smallest kernel in place of each call
MOST_CALLS = 400
_HEAD_ONLY: dict[str, Any] = {"size": 4096, "inputs": [], "state": {}, "outputs": []}
_Event: Any = torch.cuda.Event
_synchronize = torch.cuda.synchronize
_clock = time.perf_counter_ns


class CudaRunner(Runner):
    """Answers one judge; inputs and outputs are in device memory that the judge owns."""

    def __init__(self, control: int, arena_fd: int) -> None:
        super().__init__(control, arena_fd)
        self._device_arena: CudaArena
        self._flush: torch.Tensor
        self._little: torch.Tensor
        self._times: Any = None
        self._begun = False
        self._profiled: tuple[torch.Tensor, ...] = ()

    def prepare(self) -> None:
        """Bring the driver and torch's list of devices up; when the judge says so, make the context and start what opens files.

        A context that is made disturbs what others measure on the device, and the others do not.
        """
        ctypes.CDLL("libcuda.so.1").cuInit(0)
        torch.cuda.init()  # type: ignore[no-untyped-call]
        if self._read() is None:
            os._exit(0)  # the judge has hung up
        begin, end = _pair()
        begin.record()
        torch.ones(1024, device="cuda")
        end.record()
        _synchronize()
        warm_up()

    def do_share(self, layout: dict[str, Any]) -> dict[str, Any]:
        """Open the judge's memory before there is a candidate: that takes as long as loading one."""
        self._begin(layout)
        return {}

    def _begin(self, layout: dict[str, Any]) -> None:
        if self._begun:
            return
        words = Arena(self._arena_fd, _HEAD_ONLY)
        self._times = words.words[TIMES : TIMES + MOST_CALLS].cast("B").cast("d")
        regions = (
            DeviceRegion.open(layout["handle"], layout["size"]),
            DeviceRegion.open(layout["state_handle"], layout["state_size"]),
        )
        self._arena = self._device_arena = CudaArena(words, regions, layout)
        self._scarce = bool(layout["scarce"])
        # The same memory for everybody: a chip writes to some of its memory faster than to other.
        self._flush = DeviceRegion.open(layout["flush"], layout["flush_size"]).bytes()
        self._little = self._flush[:1]
        tf32 = bool(layout["tf32"])
        torch.backends.cuda.matmul.allow_tf32 = tf32
        torch.backends.cudnn.allow_tf32 = bool(layout["tf32_convolutions"])
        self._sealed = bool(layout["sealed"])
        if self._sealed:
            triton_hooks.install(self._compile)
            kb.runtime.torch_inline.install()
        self._begun = True

    def _place(self, model: Any) -> Any:
        return model.to("cuda") if isinstance(model, torch.nn.Module) else model

    def _compile(self, request: dict[str, Any]) -> dict[str, Any]:
        """Have the judge compile, in the middle of whatever it waits for."""
        self._write(json.dumps({"compile": request}).encode() + b"\n")
        line = self._read()
        if line is None:
            os._exit(0)  # the judge has hung up
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _tell(self, request: dict[str, Any]) -> None:
        """Tell the judge what it does not answer."""
        self._write(json.dumps({"compile": request}).encode() + b"\n")

    def do_load(
        self,
        source: str,
        prebuilt: dict[str, str],
        seed: int,
        init: Any,
        layout: dict[str, Any],
        packing: bool,
    ) -> dict[str, Any]:
        """Execute the candidate and construct its model on the device."""
        if layout["sealed"] and imports_cute(source):
            cute_hooks.install(self._tell)
        answer = super().do_load(source, prebuilt, seed, init, layout, packing)
        _synchronize()
        return answer

    def do_adopt(self, copied: bool) -> dict[str, Any]:
        """Take the judge's parameters."""
        answer = super().do_adopt(copied)
        _synchronize()
        return answer

    def do_import_compiler(self) -> dict[str, Any]:
        """Import what ``torch.compile`` needs, which takes seconds, before it is asked for."""
        import_module("torch._dynamo")
        import_module("torch._inductor.compile_fx")
        return {}

    def do_baseline(self, mode: str | None = None) -> dict[str, Any]:
        """Put ``torch.compile`` before the model: only the judge's own reference is asked this."""
        self._model = torch.compile(self._model, dynamic=False, mode=mode)
        for row in self._device_arena.sets[:2]:
            self._model(*row)
        _synchronize()
        if self._scarce:
            torch.cuda.empty_cache()  # what its trials took
        return {}

    def do_calls(self) -> dict[str, Any]:  # type: ignore[override] # memory is spoiled by batches
        """Run batches of calls on the judge's signal until it says stop: questions and timed ones."""
        words = self._arena.words
        gc.collect()
        gc.disable()
        call = 0
        kept: tuple[Any, ...] = ()  # the answer of a batch of one call, while the next is made
        try:
            while True:
                while words[PREPARE] == call:
                    if words[STOP]:
                        return {"calls": call}
                call = words[PREPARE]
                count, empty, flushes = words[COUNT], words[EMPTY], words[FLUSHES]
                events = [_pair() for _ in range(count)]
                self._spoil()
                rest = torch.cuda.memory_allocated()
                torch.cuda.reset_peak_memory_stats()
                words[READY] = call
                if not self._reached(GO, call):
                    return {"calls": call}
                words[HOST], told, first = self._batch(events, empty, flushes)
                words[DONE] = call
                for number, (begin, end) in enumerate(events):
                    self._times[number] = begin.elapsed_time(end) * 1e-3
                words[BETWEEN] = _between(events)
                if self._scarce and not self._reached(TAKEN, call):
                    return {"calls": call}
                if not empty:
                    # The first answer was alive while the others were made: has it changed?
                    self._copy(self._device_arena.again, kept or first)
                    kept = first if count == 1 and self._sealed else ()
                    _synchronize()
                    peak = torch.cuda.max_memory_allocated() - rest
                    places = {"inside": self._inside(told), "aliased": _aliased(told)}
                    self._say({**described(told), "peak": peak, **places})
                del told, first
                if words[RELEASE]:
                    torch.cuda.empty_cache()
                words[TOLD] = call
        except BaseException:
            words[FAILED] = 1
            raise
        finally:
            gc.enable()

    def _reached(self, word: int, call: int) -> bool:
        """Wait for a control word; return whether it has named `call` before all is to stop."""
        words = self._arena.words
        while words[word] != call:
            if words[STOP]:
                return False
        return True

    def _spoil(self) -> None:
        """Leave what no answer holds in the memory that one will be allocated in."""
        arena = self._arena
        for slot in () if self._scarce and arena.words[EMPTY] else arena.outputs:
            stale = torch.empty_like(slot)
            poison(stale)
            del stale
        _synchronize()

    def _batch(
        self, events: list[tuple[Any, Any]], empty: int, flushes: int
    ) -> tuple[int, Any, tuple[Any, ...]]:
        """Make one call for each pair of events.

        Returns:
            The nanoseconds of enqueueing it all; an answer to tell of, the first that does not fit its
            place, else the last; and the first answer.
        """
        start = _clock()
        model, flush = self._model, self._flush
        result, odd, first = None, None, ()
        rows = zip(events, self._device_arena.sets, self._device_arena.results, strict=False)
        for (begin, end), inputs, slots in rows:
            # Writing more than the L2 holds also fills the queue: the call is enqueued meanwhile.
            for _ in range(flushes):
                flush.zero_()
            begin.record()
            if empty == SMALLEST:
                self._little.zero_()
            result = slots if empty else model(*inputs)
            end.record()
            if empty:
                self._copy_from(slots)
                continue
            outputs = (result,) if type(result) is torch.Tensor else result
            if not _fits(outputs, slots):
                odd = result if odd is None else odd
                continue
            self._copy(slots, outputs)
            first = first or tuple(outputs)
        enqueued = _clock() - start
        _synchronize()
        return enqueued, result if odd is None else odd, first

    def _copy(self, slots: tuple[torch.Tensor, ...], outputs: Any) -> None:
        for slot, value in zip(slots, outputs, strict=False):
            slot.copy_(value)

    def _copy_from(self, slots: tuple[torch.Tensor, ...]) -> None:
        """Do what follows a call, without one: as many bytes are copied."""
        results = self._device_arena.results
        rest = (*results[:1], *results[-1:], self._device_arena.again)
        if self._scarce:  # there is one place: its bytes are read and written
            for slot in slots:
                slot.neg_() if slot.is_floating_point() else slot.bitwise_not_()
            return
        self._copy(slots, next(other for other in rest if other is not slots))

    def _inside(self, result: Any) -> list[int]:
        """Return the numbers of the outputs that lie in the memory that is shared with the judge."""
        values = result if isinstance(result, (tuple, list)) else (result,)
        holds = self._device_arena.holds
        return [
            number
            for number, value in enumerate(values)
            if type(value) is torch.Tensor and holds(value.data_ptr())
        ]

    def do_profile(self, calls: int, flushes: int, whole: bool) -> dict[str, Any]:
        """Run calls under the profiler and tell what the device did; `whole`: as timed ones are run."""
        if whole:
            events = [_pair() for _ in range(calls)]

            def batch() -> None:
                # The answer before is kept, as between batches of one timed call: the next lies elsewhere, and a chip reads
                # and writes some of its memory faster than other.
                first = self._batch(events, 0, flushes)[2]
                self._profiled = first if calls == 1 else ()

            return {"timeline": capture(batch, 1)}
        self._profiled = ()
        rows = iter(self._device_arena.sets * calls)
        scratch = os.environ.get("TMPDIR")
        return {"timeline": capture(lambda: self._model(*next(rows)), calls, scratch)}


def _pair() -> tuple[Any, Any]:
    return _Event(enable_timing=True), _Event(enable_timing=True)


def _aliased(result: Any) -> list[int]:
    """Return the numbers of the outputs that share memory with another one."""
    values = result if isinstance(result, (tuple, list)) else (result,)
    places = [x.untyped_storage().data_ptr() if type(x) is torch.Tensor else None for x in values]
    return [n for n, place in enumerate(places) if place is not None and places.count(place) > 1]


def _between(events: list[tuple[Any, Any]]) -> int:
    """Return the mean ns from the end of a call to the start of the next, 0 where there is one call."""
    times = [end.elapsed_time(begin) for (_, end), (begin, _) in pairwise(events)]
    return max(0, int(fmean(times) * 1e6)) if times else 0


def _fits(outputs: Any, slots: tuple[torch.Tensor, ...]) -> bool:
    """Say whether an answer can be copied to its place as it is."""
    return (
        isinstance(outputs, (tuple, list))
        and len(outputs) == len(slots)
        and all(
            type(value) is torch.Tensor and value.shape == slot.shape and value.dtype == slot.dtype
            for value, slot in zip(outputs, slots, strict=True)
        )
    )
