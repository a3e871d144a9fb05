"""From an outcome's profile to words, numbers and symptoms. Deterministic."""

from __future__ import annotations

from collections.abc import Mapping

from kb.records import SYMPTOMS, TargetRecord
from search.authors import Attempt, Diagnosis
from search.operators import Work
from search.outcome import Passed

_TRANSCENDENTAL = {"softmax", "elementwise"}
_ROW_FAMILIES = {"softmax", "normalization", "reduction"}
_MANY = 3  # operators of an eager program, from which on launching and traffic add up


def diagnose(
    work: Work,
    operators: int,
    target: TargetRecord,
    bandwidth: float,
    baselines: Mapping[str, float],
    attempt: Attempt | None,
) -> Diagnosis:
    """Say what holds a program back.

    Args:
        work: what the task costs at least.
        operators: compute operators that eager runs one after the other.
        target: peak rates; on a CPU those of one core, since one thread is timed.
        bandwidth: bytes/s that the program's threads can move, see `search.profilers.bandwidth`.
        baselines: seconds of eager and, where it ran, of torch.compile.
        attempt: the program, None for the reference under eager.

    Returns:
        Symptoms from `kb.records.SYMPTOMS`, the most telling first.
    """
    found: dict[str, str] = {}
    rate, peak = _compute_peak(target)
    memory_seconds = work.bytes / bandwidth
    compute_seconds = work.flops / peak
    intensity = work.flops / max(work.bytes, 1.0)
    if attempt is None:
        seconds = baselines["eager"]
        _reference_symptoms(found, work, operators)
    else:
        seconds = attempt.seconds
        if isinstance(attempt.outcome, Passed):
            _program_symptoms(found, attempt.outcome)
    bound = "compute-bound" if compute_seconds > memory_seconds else "memory-bound"
    floor = max(memory_seconds, compute_seconds)
    if seconds != float("inf"):
        found[bound] = (
            f"{bound.capitalize()}: at least {_time(floor)} by "
            f"{'arithmetic' if bound == 'compute-bound' else 'traffic'} "
            f"({intensity:.1f} FLOP a byte), it takes {_time(seconds)}, "
            f"{work.flops / seconds / 1e9:.1f} of {peak / 1e9:.0f} GFLOP/s {rate} and "
            f"{work.bytes / seconds / 1e9:.1f} of {bandwidth / 1e9:.0f} GB/s."
        )
        _distance_symptoms(found, work, bound, floor / seconds)
    order = {symptom: place for place, symptom in enumerate(found)}
    symptoms = tuple(s for s in sorted(found, key=order.__getitem__) if s in SYMPTOMS)
    return Diagnosis(symptoms=symptoms, lines=tuple(found.values()))


def _compute_peak(target: TargetRecord) -> tuple[str, float]:
    peak = target.peak["float32"]
    if target.device == "cpu":
        return "float32 of one core", peak / target.units
    return "float32", peak


def _reference_symptoms(found: dict[str, str], work: Work, operators: int) -> None:
    if work.traffic > 1.5 * work.bytes:
        found["intermediate-traffic"] = (
            f"Eager moves {work.traffic / 1e6:.1f} MB where {work.bytes / 1e6:.1f} MB would do: "
            "intermediate tensors are written and read back."
        )
    if operators >= _MANY:
        found["many-small-operators"] = f"Eager runs {operators} operators one after the other."


def _program_symptoms(found: dict[str, str], outcome: Passed) -> None:
    if outcome.own_share is not None and outcome.own_share < 0.5:
        found["redundant-work"] = (
            f"{1 - outcome.own_share:.0%} of the time is spent in library operators, "
            "outside the candidate's own kernels."
        )


def _distance_symptoms(found: dict[str, str], work: Work, bound: str, fraction: float) -> None:
    if fraction > 0.6:
        return
    far = f"only {fraction:.0%} of what the hardware allows"
    if bound == "compute-bound":
        found["not-vectorised"] = f"Arithmetic runs at {far}: vector width, unrolling or reuse."
        found["poor-cache-reuse"] = f"Operands may come from far away: {far}."
    elif _ROW_FAMILIES & set(work.families):
        found["serial-reduction"] = f"Row reductions run at {far}: dependent adds, several passes."
        found["slow-transcendentals"] = "exp, tanh or division may limit the passes over a row."
    elif _TRANSCENDENTAL & set(work.families):
        found["slow-transcendentals"] = f"Elementwise work runs at {far}."
        found["page-faults"] = "Fresh outputs are touched for the first time inside the call."


def _time(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"
