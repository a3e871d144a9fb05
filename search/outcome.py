"""What became of a candidate: one class a fate, told apart by `kind`."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """A speed-up with its interval: baseline seconds over candidate seconds."""

    ratio: float
    low: float
    high: float
    confidence: float = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTime:
    """What one kernel took of a call on a device, from a profile.

    Attributes:
        name: without its parameters; copies and fills are called ``Memcpy …`` and ``Memset …``.
        count: launches of one call.
        seconds: of the device in one call, all launches together.
        own: the candidate brought it; False for the library's kernels, copies and fills.
        grid, block: of the launch that took longest, as ``128x1x1``; "" for copies and fills.
        registers, shared: of a thread, and bytes of a block.
        occupancy: fraction of a unit's warps that were resident on average, as the tracer estimates.
    """

    name: str
    count: float
    seconds: float
    own: bool
    grid: str = ""
    block: str = ""
    registers: int = 0
    shared: int = 0
    occupancy: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """It builds, it is right, and it was timed.

    Attributes:
        seconds: of one call: the middle one of the blocks of interleaved samples, each block's being one of its
            lowest.
        samples: how many calls were timed.
        speedup: by baseline ("eager", "compile"); a baseline that could not run is absent.
        max_error, allowed_error: in units of the output, where the candidate came nearest to the limit.
        own_share: fraction of its time spent in its own kernels, None where it cannot be measured.
        profile: measured and counted features: ``flops``, ``bytes``, ``gflops``, ``bandwidth``,
            ``roofline`` (fraction of the attainable rate) and the like; ``seen``, the share of blocks whose
            time comes from a call that was seen to end, where it is too small.
        kernels: that a device ran in one call, the longest first; empty on a CPU.
        losses: why the compiler expects it to be slow, in the compiler's words.
        calls: seconds of what was timed, in its order, by contender ("candidate" and the baselines):
            single calls on a processor, means of batches on a GPU; to be looked at, four digits.
        workloads: where a task has several: of each, the speed-up by baseline; the rest is of them together,
            see `search.judging.workloads`.
        degenerate: the reference answers the same whatever it is given, so that nothing follows from a speed-up.
    """

    seconds: float
    samples: int
    speedup: Mapping[str, Ratio]
    max_error: float
    allowed_error: float
    own_share: float | None = None
    profile: Mapping[str, float] = field(default_factory=dict)
    kernels: tuple[KernelTime, ...] = ()
    losses: tuple[str, ...] = ()
    build_seconds: float = 0.0
    calls: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    workloads: Mapping[str, Mapping[str, Ratio]] = field(default_factory=dict)
    degenerate: bool = False
    kind: Literal["passed"] = "passed"

    @property
    def unseen(self) -> bool:
        """The machine was too busy to see its calls end: nothing follows from its times."""
        return "seen" in self.profile

    @property
    def merit(self) -> float:
        """What programs of one task are ranked by: more is faster, the unit means nothing.

        The geometric mean of the speed by the clock and of the speed-up over each baseline. A
        machine that slows down between two candidates spoils the first, a neighbour that
        disturbs a baseline spoils the second: together they wander less than each alone. Over several
        workloads only speed-ups say whether one of them is slower.
        """
        ratios = tuple(ratio.ratio for ratio in self.speedup.values())
        views = ratios if self.workloads else (1 / self.seconds, *ratios)
        return math.prod(views) ** (1 / len(views))


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """A kernel that was compiled for a device which is not here.

    Attributes:
        registers: 32-bit registers of a thread (of a lane on AMD); 0 where its compiler is not here.
        shared: bytes of shared memory (LDS) of a block.
        spills: bytes of a thread that were spilled, stores and loads together.
        stack: bytes of local memory of a thread.
        warps: of a block, wavefronts on AMD.
        occupancy: fraction of the warps of a compute unit that reside on it at once, at most.
        limited_by: what admits no further block.
        launches: how often one call launches it.
        losses: why the compiler expects it to be slow, in the compiler's words.
    """

    name: str
    architecture: str
    registers: int
    shared: int
    spills: int
    stack: int
    warps: int
    occupancy: float
    limited_by: tuple[str, ...] = ()
    launches: int = 1
    losses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """It builds for a device that is not here and, where that could be seen, it is right.

    Nothing was timed, and nothing here is a time or follows from one.

    Attributes:
        max_error, allowed_error: in the interpreter, on smaller shapes, where it came nearest to the
            limit; None where the answers were not checked.
        unchecked: why the answers were not checked, "" where they were.
        notes: what else limits what was seen, a line each.
    """

    kernels: tuple[Kernel, ...]
    max_error: float | None
    allowed_error: float | None
    unchecked: str = ""
    notes: tuple[str, ...] = ()
    build_seconds: float = 0.0
    timed: Literal[False] = False
    kind: Literal["checked"] = "checked"

    @property
    def merit(self) -> float:
        """What candidates of one dry run are ranked by, from static features alone.

        Launches count most (each one goes through memory), then spills, then occupancy below one
        half; an answer that could not be checked counts half. It ranks within a dry run, predicts
        no speed and compares with no merit of a timed candidate.
        """
        if not self.kernels:
            return 0.0
        launches = sum(kernel.launches for kernel in self.kernels)
        health = sum(_health(kernel) * kernel.launches for kernel in self.kernels) / launches
        return health / launches * (0.5 if self.unchecked else 1.0)


def _health(kernel: Kernel) -> float:
    """Return 1 for a kernel that neither spills nor leaves a unit half empty, less for others."""
    return min(1.0, 0.5 + kernel.occupancy) / (1 + (kernel.spills + kernel.stack) / 256)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrong:
    """It ran, and its answer is not the reference's."""

    reason: str  # one line
    detail: str = ""  # which elements differ, by how much, on which inputs
    build_seconds: float = 0.0
    kind: Literal["wrong"] = "wrong"


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildFailed:
    """It does not compile or does not import."""

    reason: str
    detail: str = ""  # the compiler's message, cut to what matters
    build_seconds: float = 0.0
    kind: Literal["build_failed"] = "build_failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Crashed:
    """It raised, or a signal or a limit killed it."""

    reason: str
    detail: str = ""
    signal: str | None = None
    build_seconds: float = 0.0
    kind: Literal["crashed"] = "crashed"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedOut:
    """It was still running when its time was up."""

    reason: str
    seconds: float
    detail: str = ""
    build_seconds: float = 0.0
    kind: Literal["timed_out"] = "timed_out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """It was caught cheating.

    Attributes:
        trick: the name of what it did, e.g. ``constant-output``.
    """

    reason: str
    trick: str
    detail: str = ""
    build_seconds: float = 0.0
    kind: Literal["refused"] = "refused"


# What a search may build on: it is right as far as can be told here.
STANDING: tuple[str, ...] = ("passed", "checked")
Outcome = Passed | Checked | Wrong | BuildFailed | Crashed | TimedOut | Refused
_BY_KIND: dict[str, Any] = {
    "passed": Passed,
    "checked": Checked,
    "wrong": Wrong,
    "build_failed": BuildFailed,
    "crashed": Crashed,
    "timed_out": TimedOut,
    "refused": Refused,
}
OUTCOME_KINDS: tuple[str, ...] = tuple(_BY_KIND)


def to_json(outcome: Outcome) -> str:
    """Return `outcome` as JSON that `from_json` makes the same outcome of.

    The order of its mappings stays: prompts tell ratios in that order, and those of a resumed run must
    be those of an unbroken one.
    """
    return json.dumps(asdict(outcome))


def from_json(text: str) -> Outcome:
    """Return the outcome that `to_json` wrote."""
    values = json.loads(text)
    if values["kind"] == "passed":
        values["speedup"] = {name: Ratio(**ratio) for name, ratio in values["speedup"].items()}
        values["kernels"] = tuple(KernelTime(**told) for told in values.get("kernels", ()))
        values["losses"] = tuple(values.get("losses", ()))
        values["calls"] = {name: tuple(one) for name, one in values.get("calls", {}).items()}
        values["workloads"] = {
            workload: {name: Ratio(**ratio) for name, ratio in found.items()}
            for workload, found in values.get("workloads", {}).items()
        }
    if values["kind"] == "checked":
        values["kernels"] = tuple(map(_kernel, values["kernels"]))
        values["notes"] = tuple(values["notes"])
    outcome: Outcome = _BY_KIND[values["kind"]](**values)
    return outcome


def _kernel(values: dict[str, Any]) -> Kernel:
    listed = {name: tuple(values.get(name, ())) for name in ("limited_by", "losses")}
    return Kernel(**{**values, **listed})
