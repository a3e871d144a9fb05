"""One judge over several workloads: a candidate must be right on all of them, and has one verdict."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from search.finding import Look
from search.judging import Judge, Looking
from search.judging.limits import Prepared
from search.outcome import STANDING, Outcome, Passed, Ratio

if TYPE_CHECKING:
    from search.workloads import WorkloadSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSeat:
    """A workload with the judge that has its inputs."""

    workload: WorkloadSettings
    judge: Judge


class WorkloadJudge:
    """Judges each source on every workload, with one outcome.

    The verdict is the geometric mean of the speed-ups, weighted by the workloads' weights. Where a
    workload is slower than a baseline, the verdict over that baseline is no better than it, unless the
    task allows slower ones: what is best for one shape does not win by it. Workloads that are held out are
    judged where a candidate is measured for the report; they have no weight, and none may be slower.

    Args:
        seats: of all workloads; judges may share a device and a zygote.
        allow_slower: a workload may be slower than a baseline.
        ending: is called when the judges have been closed.
    """

    def __init__(
        self,
        seats: Sequence[WorkloadSeat],
        *,
        allow_slower: bool,
        ending: Callable[[], None] = lambda: None,
    ) -> None:
        self._seats = tuple(seats)
        self._allow_slower = allow_slower
        self._ending = ending
        from search.workloads import chief

        most = chief([seat.workload for seat in seats])
        self._chief = next(seat for seat in seats if seat.workload == most)

    def prepare(self, progress: Callable[[str], None] = lambda _: None) -> Prepared:
        """Prepare every workload.

        Raises:
            KbError: one cannot be judged here.
        """
        told: dict[str, Prepared] = {}
        for seat in self._seats:
            name = seat.workload.name
            told[name] = seat.judge.prepare(lambda what, name=name: progress(f"{name}: {what}"))  # type: ignore[misc]
        shown = told[self._chief.workload.name]
        counted = [seat for seat in self._seats if not seat.workload.held_out]
        common = set.intersection(*(set(told[seat.workload.name].baselines) for seat in counted))
        errors = [(name, one.compile_error) for name, one in told.items() if one.compile_error]
        return Prepared(
            baselines={
                name: weighted_mean(
                    [(s.workload.weight, told[s.workload.name].baselines[name]) for s in counted]
                )
                for name in shown.baselines
                if name in common
            },
            compile_error=f"{errors[0][0]}: {errors[0][1]}" if errors else None,
            dropped=tuple(
                (f"{name}: {what}", why) for name, one in told.items() for what, why in one.dropped
            ),
            sandbox=shown.sandbox,
            graph=shown.graph,
            work=shown.work,
            notes=_notes(told),
        )

    def judge(self, source: str, *, thorough: bool = False) -> Outcome:
        """Judge `source` on every workload, until one fails.

        Args:
            thorough: also on those that are held out.
        """
        found: list[tuple[WorkloadSettings, Passed]] = []
        last: Outcome | None = None
        for seat in self._seats:
            if seat.workload.held_out and not thorough:
                continue
            outcome = seat.judge.judge(source, thorough=thorough)
            if outcome.kind not in STANDING:
                return _told_where(outcome, seat.workload)
            if isinstance(outcome, Passed):
                found.append((seat.workload, outcome))
            elif seat is self._chief or last is None:
                last = outcome
        if not found:
            assert last is not None
            return last  # nothing was timed: it stands for all of them
        return verdict(found, self._chief.workload, allow_slower=self._allow_slower)

    def look(self, source: str) -> Look:
        """Look at a source on the workload that counts most."""
        judge = self._chief.judge
        return judge.look(source) if isinstance(judge, Looking) else Look()

    def close(self) -> None:
        """End the judges."""
        for seat in self._seats:
            seat.judge.close()
        self._ending()


def verdict(
    found: Sequence[tuple[WorkloadSettings, Passed]],
    most: WorkloadSettings,
    *,
    allow_slower: bool,
) -> Passed:
    """Return the one outcome of a candidate that passed every workload.

    Args:
        most: the workload that counts most, whose profile is kept.
    """
    shown = next(outcome for workload, outcome in found if workload == most)
    # An answer that is the same for every input is no work, whatever weight its workload has.
    work = [(workload, one) for workload, one in found if not one.degenerate] or found
    counted = [(workload.weight, one) for workload, one in work if not workload.held_out]
    counted = counted or [
        (workload.weight, one) for workload, one in found if not workload.held_out
    ]
    common = [name for name in shown.speedup if all(name in one.speedup for _, one in found)]
    speedup = {}
    for name in common:
        mean = combined([(weight, one.speedup[name]) for weight, one in counted])
        # Another workload whose interval is wide does not hide one that is slower for certain.
        slower = (
            [] if allow_slower else [r for _, one in found if (r := one.speedup[name]).high < 1]
        )
        speedup[name] = min([mean, *slower], key=lambda ratio: ratio.ratio)
    nearest = max(
        (one for _, one in found), key=lambda one: one.max_error / max(one.allowed_error, 1e-300)
    )
    shares = [one.own_share for _, one in found if one.own_share is not None]
    seen = [one.profile["seen"] for _, one in found if one.unseen]
    return replace(
        shown,
        profile={**shown.profile, **({"seen": min(seen)} if seen else {})},
        seconds=weighted_mean([(weight, one.seconds) for weight, one in counted]),
        samples=sum(one.samples for _, one in found),
        speedup=speedup,
        max_error=nearest.max_error,
        allowed_error=nearest.allowed_error,
        own_share=min(shares) if shares else None,
        losses=tuple(dict.fromkeys(loss for _, one in found for loss in one.losses)),
        build_seconds=sum(one.build_seconds for _, one in found),
        degenerate=all(one.degenerate for _, one in found),
        workloads={workload.name: one.speedup for workload, one in found},
    )


def combined(ratios: Sequence[tuple[float, Ratio]]) -> Ratio:
    """Return the weighted geometric mean of speed-ups.

    Its interval runs from the mean of the lower ends to that of the upper ends: half-widths are added, which
    is more than independent errors come to (the root of the sum of their squares).
    """
    return Ratio(
        ratio=weighted_mean([(weight, one.ratio) for weight, one in ratios]),
        low=weighted_mean([(weight, one.low) for weight, one in ratios]),
        high=weighted_mean([(weight, one.high) for weight, one in ratios]),
        confidence=min(one.confidence for _, one in ratios),
    )


def weighted_mean(values: Sequence[tuple[float, float]]) -> float:
    """Return the weighted geometric mean of positive values, each behind its weight."""
    total = sum(weight for weight, _ in values)
    return math.exp(sum(weight * math.log(value) for weight, value in values) / total)


def _told_where(outcome: Outcome, workload: WorkloadSettings) -> Outcome:
    reason = getattr(outcome, "reason", "")
    return replace(outcome, reason=f"workload {workload.name}: {reason}")  # type: ignore[arg-type]


def _notes(told: Mapping[str, Prepared]) -> tuple[str, ...]:
    """Return what is to be said, with the workload's name where not all say it."""
    lines: dict[str, list[str]] = {}
    for name, one in told.items():
        for note in one.notes:
            lines.setdefault(note, []).append(name)
    return tuple(
        note if len(names) == len(told) else f"{', '.join(names)}: {note}"
        for note, names in lines.items()
    )
