"""What a device did during a call: read from a capture, which the judge does not trust.

The capture comes from the candidate's process (`search.profilers.capture`). What cannot be is
refused here; what merely flatters is found out by `doubt`, since the judge has its own times.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from search.outcome import KernelTime

_KERNEL, _COPY, _FILL = 0, 1, 2
_MOST = 20_000
_LONGEST_NAME = 4000  # libraries' templates run to some 2,000 characters
_SLACK = 1.1  # of the judge's clock around a capture: the tracer's clock is another
# A warm call on the device against a cold one by the clock: caches and page tables give a factor of
# three at most, and an honest candidate that is refused costs more than one that hides a little.
_MISSING = 0.15
_EMPTY = 1.5e-6  # of a kernel that does nothing; 1.05 us on an H100
_LATENCY = 40e-6  # of a call, spent by the host; below this a comparison means nothing
_ENOUGH_CALLS = 3

# Names of libraries' kernels outside any namespace: cuBLAS, cuDNN, CUTLASS as they use it.
_LIBRARY_NAMES = re.compile(
    r"(ampere|volta|turing|maxwell|hopper|blackwell|sm\d\d+|cutlass|cudnn|nvjet|xmma|cask)[_\d]"
    r"|gemv\w*_kernel|gemm(k1|SN|2)\w*|splitK\w*|implicit_convolve|explicit_convolve|\w*winograd\w*"
    r"|fft\dd_|nhwcToNchw|nchwToNhwc|dot_kernel|reduce_1Block"
)
_STRANGE = re.compile(r"[^\w:.$~()> -]", re.ASCII)
_LIBRARY_SPACES = ("at", "c10", "cub", "thrust", "cutlass", "cute", "cudnn", "cublas", "cublasLt",
                   "cask__5x_cudnn", "cask_cudnn", "flash", "pytorch_flash", "cudnn_generated",
                   "internal", "magma", "cusparse", "cusolver", "nvjitlink")  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """What the device did in one call, on average over a capture.

    Attributes:
        kernels: copies and fills among them, the longest first.
        launches: of kernels, copies and fills that one call makes.
        busy_seconds: in which at least one of them ran.
        span_seconds: from the first one's begin to the last one's end, gaps included.
        copy_seconds: of copies and fills.
        host_seconds: until a call returned to its caller.
        launch_seconds: of those, inside the driver's launching functions.
        streams: that were used at once.
        dropped: events that were too many to keep; the figures are then of the others.
    """

    calls: int
    kernels: tuple[KernelTime, ...]
    launches: float
    busy_seconds: float
    span_seconds: float
    copy_seconds: float
    host_seconds: float
    launch_seconds: float
    streams: int
    dropped: int = 0

    @property
    def device_seconds(self) -> float:
        """Seconds of all kernels, copies and fills; more than `busy_seconds` where they overlap."""
        return sum(kernel.seconds for kernel in self.kernels)

    def profile(self, seconds: float) -> dict[str, float]:
        """Return the features that an outcome keeps; the launch's are of the longest kernel.

        Args:
            seconds: of a timed call. Under the profiler the host is slower, and its gaps say little.
        """
        found = {
            "kernels": float(sum(not _moves(kernel.name) for kernel in self.kernels)),
            "launches": self.launches,
            "device_seconds": self.busy_seconds,
            "gap_share": max(0.0, 1 - self.busy_seconds / seconds),
            "host_seconds": self.host_seconds,
            "streams": float(self.streams),
        }
        total = self.device_seconds
        if total > 0:
            found["copy_share"] = self.copy_seconds / total
            found["longest_share"] = self.kernels[0].seconds / total
        longest = next((kernel for kernel in self.kernels if kernel.grid), None)
        if longest is not None:
            found |= {
                "registers": float(longest.registers),
                "shared_bytes": float(longest.shared),
                "blocks": float(_product(longest.grid)),
                "threads": float(_product(longest.block)),
            }
            if longest.occupancy is not None:
                found["occupancy"] = longest.occupancy
        return found


@dataclass(frozen=True, slots=True)
class _Event:
    kind: int
    name: str
    detail: Mapping[str, Any]
    start: int
    duration: int
    stream: int


def read_capture(told: object, wall_seconds: float, own_names: Iterable[str] = ()) -> Timeline:
    """Turn what a candidate's process told into values.

    Args:
        told: what `capture` returned there, after JSON.
        wall_seconds: by the judge's clock, between asking for the capture and its answer.
        own_names: of the kernels that were compiled from the candidate's source, mangled or not.

    Raises:
        ValueError: no tracer writes that; one line says what.
    """
    try:
        calls, events, launches, host, dropped = _validated(told)
    except (KeyError, TypeError, IndexError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error
    begin = min((event.start for event in events), default=0)
    end = max((event.start + event.duration for event in events), default=0)
    span = (end - begin) / 1e9
    if max(span, host) > _SLACK * wall_seconds + 1e-3:
        raise ValueError(f"{max(span, host):.3g} s of work in {wall_seconds:.3g} s")
    kernels = _kernels(events, calls, own_names)
    return Timeline(
        calls=calls,
        kernels=kernels,
        launches=len(events) / calls,
        busy_seconds=_busy(events) / 1e9 / calls,
        span_seconds=span / calls,
        copy_seconds=sum(kernel.seconds for kernel in kernels if _moves(kernel.name)),
        host_seconds=host / calls,
        launch_seconds=sum(row[2] for row in launches) / 1e9 / calls,
        streams=len({event.stream for event in events}),
        dropped=dropped,
    )


def _validated(told: Any) -> tuple[int, list[_Event], list[Any], float, int]:
    if not isinstance(told, dict):
        raise TypeError("not an object")
    calls, dropped = _count(told["calls"], 1, 10_000), _count(told["dropped"], 0, 1 << 32)
    host = told["host_seconds"]
    if not isinstance(host, (int, float)) or not 0 <= host < 1e6:
        raise ValueError(f"host_seconds is {host!r}")
    names, details, rows = told["names"], told["details"], told["events"]
    if len(rows) > _MOST or len(names) > _MOST or len(details) > _MOST:
        raise ValueError("more events than are kept")
    for name in names:
        if not isinstance(name, str) or len(name) > _LONGEST_NAME:
            raise ValueError("a name that is none")
    events = []
    for kind, name, detail, start, duration, stream in rows:
        events.append(
            _Event(
                _count(kind, _KERNEL, _FILL),
                names[_count(name, 0, len(names) - 1)],
                _detail(details[_count(detail, 0, len(details) - 1)]),
                _count(start, 0, 1 << 53),
                _count(duration, 0, 1 << 53),
                _count(stream, -1, 1 << 40),
            )
        )
    launches = told["launches"]
    for name, count, nanoseconds in launches:
        if not isinstance(name, str):
            raise TypeError("a launch without a name")
        _count(count, 0, 1 << 32)
        _count(nanoseconds, 0, 1 << 53)
    return calls, events, launches, float(host), dropped


def _count(value: object, low: int, high: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ValueError(f"{value!r} is not a whole number from {low} to {high}")
    return value


def _detail(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise TypeError("a launch's shape is an object")
    return value


def _busy(events: Sequence[_Event]) -> int:
    """Return nanoseconds in which at least one event ran."""
    total = until = 0
    for event in sorted(events, key=lambda event: event.start):
        end = event.start + event.duration
        total += max(0, end - max(event.start, until))
        until = max(until, end)
    return total


def _kernels(
    events: Sequence[_Event], calls: int, own_names: Iterable[str]
) -> tuple[KernelTime, ...]:
    groups: defaultdict[str, list[_Event]] = defaultdict(list)
    for event in events:
        groups[event.name].append(event)
    own = {plain_name(name) for name in own_names}
    found = [_kernel(name, group, calls, own) for name, group in groups.items()]
    # Instances of one template are one line to a reader, and one to the share.
    merged: dict[str, KernelTime] = {}
    for kernel in sorted(found, key=lambda kernel: -kernel.seconds):
        first = merged.get(kernel.name)
        merged[kernel.name] = (
            kernel
            if first is None
            else replace(
                first, count=first.count + kernel.count, seconds=first.seconds + kernel.seconds
            )
        )
    return tuple(sorted(merged.values(), key=lambda kernel: (-kernel.seconds, kernel.name)))


def _kernel(name: str, group: Sequence[_Event], calls: int, own: set[str]) -> KernelTime:
    longest = max(group, key=lambda event: event.duration)
    shape = longest.detail
    plain = name if longest.kind != _KERNEL else plain_name(name)
    return KernelTime(
        # It comes from the candidate's process and ends on terminals and in prompts.
        name=_STRANGE.sub("?", plain[:120]),
        count=len(group) / calls,
        seconds=sum(event.duration for event in group) / 1e9 / calls,
        own=longest.kind == _KERNEL and plain in own and not is_library(plain),
        grid=_shape(shape.get("grid")),
        block=_shape(shape.get("block")),
        registers=_whole(shape.get("registers per thread")),
        shared=_whole(shape.get("shared memory")),
        occupancy=_percent(shape.get("est. achieved occupancy %")),
    )


def _shape(value: object) -> str:
    if not isinstance(value, list) or len(value) != 3:
        return ""
    return "x".join(str(_count(size, 1, 1 << 31)) for size in value)


def _whole(value: object) -> int:
    return _count(value, 0, 1 << 31) if value is not None else 0


def _percent(value: object) -> float | None:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value):
        return None
    # The tracer writes 0 where it cannot tell, as for blocks with much shared memory: something did run.
    return min(value / 100, 1.0) if value > 0 else None


def _product(shape: str) -> int:
    product = 1
    for size in shape.split("x"):
        product *= int(size)
    return product


def _moves(name: str) -> bool:
    return name.startswith(("Memcpy", "Memset"))


def plain_name(name: str) -> str:
    """Return a kernel's name with its namespaces, without return type, template and parameters.

    ``void at::native::copy<4, float>(int, float*)`` is ``at::native::copy``; so is its mangled form.
    An anonymous namespace counts as none.
    """
    if name.startswith("_Z"):
        return _demangled(name)
    flat = name.replace("(anonymous namespace)::", "")
    depth, kept = 0, []
    for letter in flat:
        if letter == "(" and depth == 0:
            break
        depth += (letter == "<") - (letter == ">")
        if depth == 0 and letter != ">":
            kept.append(letter)
    words = "".join(kept).split()
    return words[-1] if words else name


def _demangled(name: str) -> str:
    """Return the qualified name out of an Itanium mangling: the lengths before each part."""
    rest = name[2:].removeprefix("L")
    nested = rest.startswith("N")
    rest = rest[1:] if nested else rest
    parts: list[str] = []
    while matched := re.match(r"L?(\d+)", rest):
        size = int(matched[1])
        part = rest[matched.end() : matched.end() + size]
        rest = rest[matched.end() + size :]
        if not part.startswith("_GLOBAL__N_"):
            parts.append(part)
        if not nested:
            break
    return "::".join(parts) or name


def is_library(name: str) -> bool:
    """Say whether a kernel of this plain name belongs to a library, whoever claims it."""
    space, separator, _ = name.partition("::")
    if separator:
        return space in _LIBRARY_SPACES
    return _LIBRARY_NAMES.match(name) is not None


def own_share(
    kernels: Sequence[KernelTime], own_names: Iterable[str] | None = None
) -> float | None:
    """Return the fraction of the device's time in the candidate's own kernels.

    Args:
        own_names: of the kernels compiled from its source; by default what the kernels themselves
            were marked with when they were read.

    Returns:
        None where the device did nothing.
    """
    total = sum(kernel.seconds for kernel in kernels)
    if total <= 0:
        return None
    if own_names is None:
        return sum(kernel.seconds for kernel in kernels if kernel.own) / total
    own = {plain_name(name) for name in own_names}
    mine = (k.seconds for k in kernels if k.name in own and not is_library(k.name))
    return sum(mine) / total


def working_share(kernels: Sequence[KernelTime]) -> float:
    """Return `own_share` without the launches that do as good as nothing: of one block, and as short as an empty kernel."""
    total = sum(kernel.seconds for kernel in kernels)
    idle = (k.grid == "1x1x1" and k.seconds <= k.count * _EMPTY for k in kernels)
    mine = (k.seconds for k, none in zip(kernels, idle, strict=True) if k.own and not none)
    return sum(mine) / total if total > 0 else 0.0


def doubt(timeline: Timeline, seconds: float) -> str | None:
    """Return why a timeline cannot be that of a call which the judge timed, None where it can.

    A candidate that takes its library calls out of what it reports leaves a hole: the device is
    then there for far less than the call takes. Several calls in a row have the host's pauses
    between them in their span, a single one has not, and calls below 40 us are the host's: neither
    can be doubted.

    Args:
        seconds: of one call, by the judge's own clock.
    """
    if seconds < _LATENCY or timeline.calls < _ENOUGH_CALLS or timeline.dropped:
        return None
    if timeline.span_seconds >= _MISSING * seconds:
        return None
    return (
        f"the profile tells of {timeline.span_seconds * 1e6:.0f} us a call on the device, "
        f"the clock of {seconds * 1e6:.0f} us"
    )
