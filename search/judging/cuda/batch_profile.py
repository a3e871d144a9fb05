"""A batch of timed calls as the profiler saw it: what ran in which call, and what ran where nothing may."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_KERNEL, _COPY = 0, 1  # kinds of an event in a capture
_TOUCH = 2_000  # ns: neighbours on the device may overlap by their launch


@dataclass(frozen=True, slots=True, kw_only=True)
class _Event:
    begin: int
    end: int
    kind: int
    name: str

    def within(self, other: _Event) -> int:
        """Return the nanoseconds that both run."""
        return min(self.end, other.end) - max(self.begin, other.begin)


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """What was found.

    Attributes:
        strange: what no honest batch does, in words; None where there is nothing.
        mean: seconds that the device works in a call, copies of the answer left out; 0 where
            something is strange.
    """

    strange: str | None = None
    mean: float = 0.0


def read_windows(
    told: Any, calls: int, flushes: int, flush_seconds: float, outputs: int
) -> Windows:
    """Cut a batch into its calls.

    Args:
        told: the profile of a batch, as `search.profilers.capture` returns it: each call comes
            after `flushes` fills in a row that empty the caches, and its answer is copied after it.
        flush_seconds: in which the caches can be emptied once, at the recorded bandwidth.
        outputs: tensors of an answer.

    Raises:
        KeyError, TypeError, IndexError, ValueError: it is no profile.
    """
    names = told["names"]
    events = sorted(
        (
            _Event(begin=row[3], end=row[3] + row[4], kind=row[0], name=str(names[row[1]]))
            for row in told["events"]
        ),
        key=lambda event: (event.begin, event.end),
    )
    groups = _groups(events, flushes, 0.5 * flush_seconds * 1e9)
    if len(groups) < calls:
        return Windows(
            strange=f"the caches were emptied before {len(groups)} of {calls} calls in a batch"
        )
    emptying = {id(fill) for group in groups for fill in group}
    others = [event for event in events if id(event) not in emptying]
    for group in groups:
        for fill in group:
            for other in others:
                if other.kind == _KERNEL and other.within(fill) > _TOUCH:
                    return Windows(
                        strange=f"its kernel {other.name[:80]} ran before its call had begun, while the clock was not "
                        "running"
                    )
    found = []
    for group, following in zip(groups, [*groups[1:], None], strict=True):
        last = following[0].begin if following else float("inf")
        inside = [event for event in others if group[-1].begin < event.begin < last]
        if not any(event.kind == _KERNEL for event in inside):
            return Windows(
                strange="a timed call ran nothing on the device: its work was done in another call"
            )
        found.append(_busy(inside[:-outputs] if len(inside) > outputs else inside))
    return Windows(mean=sum(found) / len(found) / 1e9)


def _groups(events: Sequence[_Event], flushes: int, least: float) -> list[list[_Event]]:
    """Return the fills that empty the caches, by call.

    A program may fill memory of its own, but not so often in a row; where its first work is a fill, the
    run is longer than the emptying, which comes first.
    """
    runs: list[list[_Event]] = []
    before: _Event | None = None
    for event in events:
        fill = event.end - event.begin >= least and ("Memset" in event.name or "Fill" in event.name)
        if fill:
            if before is None:
                runs.append([])
            runs[-1].append(event)
            before = event
        elif before is None or event.begin >= before.end:
            before = None
    return [run[:flushes] for run in runs if len(run) >= flushes]


def _busy(events: Sequence[_Event]) -> int:
    """Return the nanoseconds in which at least one of them runs."""
    total, reached = 0, 0
    for event in events:
        total += max(0, event.end - max(event.begin, reached))
        reached = max(reached, event.end)
    return total
