"""Attempts and outcomes in words, for a prompt."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache

from search.attempt import Attempt
from search.costs.graph import Work
from search.outcome import STANDING, Checked, Outcome, Passed
from search.prompting.history import Recalled
from search.tunables import Tunable, knob_trouble, read_knobs
from search.won_or_lost import Gain, best
from synth.context import Place, TriedIdea
from synth.device_facts import duration, quantity

_FATES = {
    "wrong": "gave wrong results",
    "build_failed": "did not build",
    "crashed": "crashed",
    "timed_out": "ran out of time",
    "refused": "was refused as cheating",
}
_TOLD_SETTINGS = 6  # of a program with knobs
_knobs = lru_cache(maxsize=1024)(read_knobs)  # a run asks of the same programs before each prompt
_TOLD = 240  # ideas that are told at most; a prompt shows half as many
# What tells why a program was faster or slower than another, in a line.
_SHORT = ("device_seconds", "launches", "blocks", "registers", "shared_bytes", "spill_bytes")
_COUNTER = "perf_"  # how features begin that the processor or the kernel counted
_BASELINES = {"eager": "eager", "compile": "torch.compile"}


def verdict(outcome: Outcome) -> tuple[str, ...]:
    """Return what became of a candidate, with its figures, one sentence a line."""
    if isinstance(outcome, Passed):
        return _passed(outcome)
    if isinstance(outcome, Checked):
        return _checked(outcome)
    lines = [f"It {_FATES[outcome.kind]}: {outcome.reason}"]
    if outcome.kind == "refused":
        lines.append(f"What it did: {outcome.trick}")
    if outcome.kind == "crashed" and outcome.signal:
        lines.append(f"Killed by {outcome.signal}")
    return tuple(lines)


def detail(outcome: Outcome) -> str:
    """Return the compiler's message, the differing elements or the traceback."""
    return "" if isinstance(outcome, Passed | Checked) else outcome.detail


def trials_of_ideas(found: Iterable[Gain], near: Recalled | None = None) -> tuple[TriedIdea, ...]:
    """Return one trial an idea, in the order in which the ideas were first tried.

    Args:
        found: gains of the attempts that are told of.
        near: what stands near the program to improve, so that it is told first.
    """
    groups: dict[tuple[str, str], list[Gain]] = {}
    for gain in found:
        idea = gain.attempt.idea
        groups.setdefault((idea.title, idea.text), []).append(gain)
    return tuple(
        TriedIdea(
            title=title,
            text=f"({group[0].attempt.idea.category}) {text}",
            results=(
                *_summary([one.attempt for one in group]),
                *_beside_its_start(best(group)),
                *(_settings(group) if _place(group, near) != "elsewhere" else ()),
            ),
            gain=_speedup(group),
            place=_place(group, near),
            fate=best(group).fate or "",
        )
        for (title, text), group in _worth_telling(groups, near).items()
    )


def _worth_telling(
    groups: dict[tuple[str, str], list[Gain]], near: Recalled | None
) -> dict[tuple[str, str], list[Gain]]:
    """Return the ideas that a prompt may have room for: near ones, the best, the latest.

    Telling costs the same however long a run is.
    """
    if len(groups) <= _TOLD:
        return groups
    fastest = sorted(groups, key=lambda key: -_speedup(groups[key]))[: _TOLD // 3]
    close = [key for key, group in groups.items() if _place(group, near) != "elsewhere"]
    kept = {*fastest, *close[-_TOLD // 3 :], *list(groups)[-_TOLD // 3 :]}
    return {key: group for key, group in groups.items() if key in kept}


def _speedup(group: list[Gain]) -> float:
    return max(gain.attempt.speedup for gain in group)


def _place(group: list[Gain], near: Recalled | None) -> Place:
    numbers = {gain.attempt.number for gain in group}
    if near is None:
        return "elsewhere"
    if numbers & near.trajectory:
        return "trajectory"
    return "siblings" if numbers & near.siblings else "elsewhere"


def _beside_its_start(gain: Gain) -> tuple[str, ...]:
    ratio = gain.ratio
    if ratio is None or gain.start is None:
        return ()
    return (
        f"{ratio.ratio:.2f} times the speed of the program that it was made from "
        f"({ratio.low:.2f} to {ratio.high:.2f})",
    )


def _settings(group: list[Gain]) -> tuple[str, ...]:
    """Return what the settings of a program with knobs came to, the fastest first."""
    tuned = [
        (gain.attempt, setting)
        for gain in group
        if isinstance(setting := _knobs(gain.attempt.draft.source), Tunable)
    ]
    tuned.sort(key=lambda one: -one[0].merit)
    of_best = [one for one in tuned if one[1].frame == tuned[0][1].frame]
    if len(of_best) < 2:  # one is the program itself
        return ()
    told = (
        f"{', '.join(f'{name} {value}' for name, value in setting.chosen.items())}: "
        + (
            duration(one.seconds)
            if one.outcome.kind == "passed"
            else _FATES.get(one.outcome.kind, one.outcome.kind)
        )
        for one, setting in of_best[:_TOLD_SETTINGS]
    )
    return (f"Its settings: {'; '.join(told)}",)


def trials_of_branches(attempts: Iterable[Attempt]) -> tuple[TriedIdea, ...]:
    """Return one trial an attempt: the implementations of one idea."""
    return tuple(
        TriedIdea(
            title=f"Implementation {attempt.branch + 1} (candidate {attempt.number})",
            text=_headline(attempt.outcome),
            results=(
                *verdict(attempt.outcome)[1:],
                *knob_trouble(attempt.draft.source),
                *_first_of(detail(attempt.outcome)),
            ),
            gain=attempt.speedup,
        )
        for attempt in attempts
    )


def cost(work: Work) -> tuple[str, ...]:
    """Return what the reference costs, one sentence each."""
    intensity = work.flops / work.bytes if work.bytes else 0.0
    lines = [
        f"The reference does {quantity(work.flops, 'FLOP')} on {quantity(work.bytes, 'B')} of inputs, parameters and "
        f"outputs: {intensity:.3g} FLOP a byte",
    ]
    if work.traffic > 1.05 * work.bytes:
        lines.append(
            f"Run operator by operator, its intermediate tensors make it "
            f"{quantity(work.traffic, 'B')}"
        )
    if work.families:
        lines.append(f"Operators, the most expensive first: {', '.join(work.families)}")
    if work.short:
        lines.append(
            "Some tensors have two bytes an element. Products of these on matrix units, summed in float32, keep any "
            "precision; sums in two bytes do not. An answer of two bytes may be off by three times the framework's "
            "error, and at least by one and a half steps of its type"
        )
    return tuple(lines)


def _passed(outcome: Passed) -> tuple[str, ...]:
    ratios = ", ".join(
        f"{ratio.ratio:.2f}x over {_BASELINES.get(name, name)} "
        f"({ratio.low:.2f} to {ratio.high:.2f})"
        for name, ratio in outcome.speedup.items()
    )
    lines = [
        f"It passed: {duration(outcome.seconds)} a call" + (f", {ratios}" if ratios else ""),
        f"Largest error {outcome.max_error:.2g} of {outcome.allowed_error:.2g} allowed",
    ]
    if outcome.degenerate:
        lines.append("Degenerate: the reference answers the same whatever it is given")
    if outcome.unseen:
        lines.append("The machine was too busy to time it: its times say little")
    if outcome.own_share is not None:
        lines.append(f"{outcome.own_share:.0%} of its time is spent in its own kernels")
    lines += [f"The compiler warns: {loss}" for loss in outcome.losses]
    if figures := _figures(outcome.profile):
        lines.append(f"Profile: {', '.join(figures)}")
    return tuple(lines)


def _figures(profile: Mapping[str, float], only: Collection[str] = ()) -> tuple[str, ...]:
    """Return a profile's figures; of a device's those that the diagnosis does not tell, to be short.

    Args:
        only: names of the figures, all where there are none.
    """
    if "launches" not in profile:
        return _of_processor(profile)
    named: dict[str, Callable[[float], str]] = {
        "device_seconds": lambda v: f"the device works {duration(v)} a call",
        "launches": lambda v: f"{v:.3g} launch{'es' if v != 1 else ''}",
        "host_seconds": lambda v: f"the host takes {duration(v)} under the profiler",
        "blocks": lambda v: f"longest kernel {v:.0f} blocks",
        "threads": lambda v: f"{v:.0f} threads a block",
        "registers": lambda v: f"{v:.0f} registers a thread",
        "shared_bytes": lambda v: f"{v / 1024:.3g} KiB shared a block",
        "spill_bytes": lambda v: f"{v:.0f} bytes spilled a thread",
        "peak_bytes": lambda v: f"{quantity(v, 'B')} of memory at most",
    }
    told = [
        say(profile[n]) for n, say in named.items() if profile.get(n) and (not only or n in only)
    ]
    if only:
        return tuple(told)
    counted = [f"{n} {v:.4g}" for n, v in sorted(profile.items()) if n.startswith("ncu_")]
    return (*told, *counted)


def _of_processor(profile: Mapping[str, float]) -> tuple[str, ...]:
    """Return the rates of a call on a processor, and what was counted in it.

    Bounds are left out: they are those of all cores, and the diagnosis tells the one core's.
    """
    units = (("bandwidth", "B/s", 1.0), ("gflops", "FLOP/s", 1e9))
    rates = [quantity(profile[n] * scale, unit) for n, unit, scale in units if n in profile]
    told = [f"{' and '.join(rates)} by the reference's count"] if rates else []
    counts = (
        f"{value:.4g} {name.removeprefix(_COUNTER).replace('_', ' ')} a call"
        for name, value in sorted(profile.items())
        if name.startswith(_COUNTER)
    )
    return (*told, *counts)


def _checked(outcome: Checked) -> tuple[str, ...]:
    lines = ["It compiles for the target, which is not here: nothing was timed"]
    if outcome.unchecked:
        lines.append(f"Its answers were not checked: {outcome.unchecked}")
    else:
        lines.append(
            f"It is right in the interpreter on smaller shapes: largest error {outcome.max_error:.2g} "
            f"of {outcome.allowed_error:.2g} allowed"
        )
    for kernel in outcome.kernels:
        spilled = f", {kernel.spills} bytes spilled" if kernel.spills else ""
        limits = f" by {' and '.join(kernel.limited_by)}" if kernel.limited_by else ""
        lines.append(
            f"Kernel {kernel.name}, launched {kernel.launches}x: {kernel.registers} registers, "
            f"{kernel.shared} bytes of shared memory, {kernel.warps} warps, occupancy "
            f"{kernel.occupancy:.0%}{limits}{spilled}"
        )
        lines += [f"The compiler warns of {kernel.name}: {loss}" for loss in kernel.losses]
    return tuple(lines)


def _headline(outcome: Outcome) -> str:
    line = verdict(outcome)[0]
    return line[0].lower() + line[1:]


def _first_of(text: str, lines: int = 2) -> tuple[str, ...]:
    """Return the first telling lines of a detail: enough to know a fault again."""
    return tuple(line.strip() for line in text.splitlines() if line.strip())[:lines]


def _summary(group: list[Attempt]) -> tuple[str, ...]:
    standing = [attempt for attempt in group if attempt.outcome.kind in STANDING]
    lines = []
    if standing:
        fastest = max(standing, key=lambda attempt: (attempt.speedup, attempt.merit))
        lines.append(
            f"{len(standing)} of {len(group)} implementations passed; the best: "
            f"{_headline(fastest.outcome)}"
        )
        if isinstance(fastest.outcome, Passed) and "launches" in fastest.outcome.profile:
            told = ", ".join(_figures(fastest.outcome.profile, _SHORT))
            lines.append(told[:1].upper() + told[1:])
    for kind, fate in _FATES.items():
        failed = [attempt for attempt in group if attempt.outcome.kind == kind]
        if failed:
            last = failed[-1].outcome
            assert not isinstance(last, Passed | Checked)
            lines.append(f"{len(failed)} of {len(group)} {fate}: {last.reason}")
    return tuple(lines)
