"""What the device did during a few calls, recorded in the process that makes them.

This half runs beside candidate code, so it binds what it needs when it is imported, which must be
before any candidate code exists, and returns plain values. `search.profilers.timeline` reads them
in the judge's process and believes nothing that cannot be.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch
from torch._C._autograd import (
    DeviceType,
    _disable_profiler,
    _enable_profiler,
    _prepare_profiler,
)
from torch._C._profiler import (
    ProfilerActivity,
    ProfilerConfig,
    ProfilerState,
    _ExperimentalConfig,
)

MOST_EVENTS = 20_000  # some 0.8 MB as JSON; a program beyond that is launch-bound without a doubt
_LAUNCHES = ("cudaLaunch", "cuLaunch", "cudaGraphLaunch", "cuGraphLaunch")
_KEPT = ("grid", "block", "registers per thread", "shared memory", "est. achieved occupancy %")

_clock = time.perf_counter
_loads, _dumps = json.loads, json.dumps
_open, _join, _unlink = open, os.path.join, os.unlink
_synchronize = torch.cuda.synchronize
_cuda = torch.cuda.is_available
_DEVICE = DeviceType.CUDA


def warm_up() -> None:
    """Load and start the device's tracer once: it opens files that a sandbox may hide later."""
    _start()
    _disable_profiler()


def capture(call: Callable[[], Any], calls: int = 3, scratch: str | None = None) -> dict[str, Any]:
    """Record what `calls` calls do on the device; without one, only the host's time is told.

    Args:
        call: one call of the program, warmed up by the caller.
        scratch: a folder that this process may write to. torch up to 2.11 gives the shapes of
            launches to a file only; without a folder they are left out there.

    Returns:
        JSON's values: ``calls``, ``host_seconds`` (until the last call returned), ``wall_seconds``
        (until the device was done), ``names``, ``details`` (grid, block, registers, shared memory
        and occupancy as CUPTI tells), ``events`` (kind, name, detail, start in ns from the first,
        duration in ns, stream), ``launches`` (name, count, ns in the host's call) and
        ``dropped``, how many events were too many.
    """
    present = _cuda()
    if present:
        _synchronize()
    _start()
    began = _clock()
    try:
        for _ in range(calls):
            call()
        returned = _clock()
        if present:
            _synchronize()
        done = _clock()
    finally:
        result = _disable_profiler()
    events = result.events()
    # The file of a very long capture would take longer than all the rest.
    short = len(events) <= MOST_EVENTS
    told = _Table(_shapes(result, scratch) if scratch and short else {})
    for event in events:
        told.add(event)
    return {
        "calls": calls,
        "host_seconds": returned - began,
        "wall_seconds": done - began,
        **told.values(),
    }


def _shapes(result: Any, scratch: str) -> dict[tuple[int, str], str]:
    """Return launches' shapes as JSON, by correlation and name, from the file that has them."""
    path = _join(scratch, "trace.json")
    try:
        result.save(path)
        with _open(path, encoding="utf-8") as file:
            events = _loads(file.read())["traceEvents"]
    except (OSError, RuntimeError, ValueError, KeyError):
        return {}  # the folder is full or closed: the shapes are then left out, as without one
    finally:
        with suppress(OSError):
            _unlink(path)
    return {
        (event["args"].get("correlation", 0), event["name"]): _kept(event["args"])
        for event in events
        if event.get("cat") == "kernel"
    }


def _start() -> None:
    config = ProfilerConfig(
        ProfilerState.KINETO, False, False, False, False, False, _ExperimentalConfig(), ""
    )
    # The host's operators are left out: recording them slows the launches that are to be seen.
    activities = {ProfilerActivity.CUDA} if _cuda() else {ProfilerActivity.CPU}
    _prepare_profiler(config, activities)
    _enable_profiler(config, activities)


class _Table:
    """Events as rows of numbers, with each name and each launch shape kept once."""

    def __init__(self, shapes: dict[tuple[int, str], str]) -> None:
        self._shapes = shapes
        self._names: dict[str, int] = {}
        self._details: dict[str, int] = {}
        self._events: list[list[int]] = []
        self._launches: dict[str, list[int]] = {}
        self._dropped = 0

    def add(self, event: Any) -> None:
        """Keep `event` where it tells of the device."""
        name = event.name()
        if event.device_type() != _DEVICE:
            if name.startswith(_LAUNCHES):
                row = self._launches.setdefault(name, [0, 0])
                row[0] += 1
                row[1] += event.duration_ns()
            return
        if event.is_user_annotation() or event.is_hidden_event():
            return
        if len(self._events) >= MOST_EVENTS:
            self._dropped += 1
            return
        self._events.append(
            [
                _kind(name),
                self._names.setdefault(name, len(self._names)),
                self._details.setdefault(self._detail(event, name), len(self._details)),
                event.start_ns(),
                event.duration_ns(),
                event.device_resource_id(),
            ]
        )

    def _detail(self, event: Any, name: str) -> str:
        metadata = event.metadata_json()
        if not metadata:
            return self._shapes.get((event.correlation_id(), name), "{}")
        try:
            return _kept(_loads("{" + metadata + "}"))
        except ValueError:
            return "{}"

    def values(self) -> dict[str, Any]:
        """Return the table."""
        first = min((row[3] for row in self._events), default=0)
        return {
            "names": list(self._names),
            "details": [_loads(text) for text in self._details],
            "events": [[*row[:3], row[3] - first, *row[4:]] for row in self._events],
            "launches": [[name, *row] for name, row in self._launches.items()],
            "dropped": self._dropped,
        }


def _kind(name: str) -> int:
    """Return 0 for a kernel, 1 for a copy, 2 for a fill."""
    return 1 if name.startswith("Memcpy") else 2 if name.startswith("Memset") else 0


def _kept(told: dict[str, Any]) -> str:
    return _dumps({key: told[key] for key in _KEPT if key in told})
