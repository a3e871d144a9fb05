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
class Passed:
    """It builds, it is right, and it was timed.

    Attributes:
        seconds: the least of the interleaved samples of one call.
        samples: how many calls were timed.
        speedup: by baseline ("eager", "compile"); a baseline that could not run is absent.
        max_error, allowed_error: in units of the output, where the candidate came nearest to the limit.
        own_share: fraction of its time spent in its own kernels, None where it cannot be measured.
        profile: measured and counted features: ``flops``, ``bytes``, ``gflops``, ``bandwidth``,
            ``roofline`` (fraction of the attainable rate) and the like.
    """

    seconds: float
    samples: int
    speedup: Mapping[str, Ratio]
    max_error: float
    allowed_error: float
    own_share: float | None = None
    profile: Mapping[str, float] = field(default_factory=dict)
    build_seconds: float = 0.0
    kind: Literal["passed"] = "passed"

    @property
    def merit(self) -> float:
        """What programs of one task are ranked by: more is faster, the unit means nothing.

        The geometric mean of the speed by the clock and of the speed-up over each baseline. A
        machine that slows down between two candidates spoils the first, a neighbour that
        disturbs a baseline spoils the second: together they wander less than each alone.
        """
        views = (1 / self.seconds, *(ratio.ratio for ratio in self.speedup.values()))
        return math.prod(views) ** (1 / len(views))


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


Outcome = Passed | Wrong | BuildFailed | Crashed | TimedOut | Refused
_BY_KIND: dict[str, Any] = {
    "passed": Passed,
    "wrong": Wrong,
    "build_failed": BuildFailed,
    "crashed": Crashed,
    "timed_out": TimedOut,
    "refused": Refused,
}
OUTCOME_KINDS: tuple[str, ...] = tuple(_BY_KIND)


def to_json(outcome: Outcome) -> str:
    """Return `outcome` as JSON with sorted keys."""
    return json.dumps(asdict(outcome), sort_keys=True)


def from_json(text: str) -> Outcome:
    """Return the outcome that `to_json` wrote."""
    values = json.loads(text)
    if values["kind"] == "passed":
        values["speedup"] = {name: Ratio(**ratio) for name, ratio in values["speedup"].items()}
    outcome: Outcome = _BY_KIND[values["kind"]](**values)
    return outcome
