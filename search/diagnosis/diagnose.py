"""From an outcome's profile to words, numbers and symptoms. Deterministic."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from kb.errors import KbError
from kb.records.schema import SYMPTOMS, TargetRecord
from search.attempt import Attempt, Diagnosis
from search.costs.graph import Work
from search.diagnosis.facts import ProgramFacts, beyond
from search.diagnosis.gpu_rules import SPLIT, findings, least_times, product_rate
from search.finding import COUNTED, INFERRED, OPERATORS, SEEN, TOLD, Evidence, Finding, Look, lossy
from search.outcome import Checked, Passed
from synth.bottleneck import Bottleneck, Confidence
from synth.device_facts import duration

_ROW_FAMILIES = {"softmax", "normalization", "reduction"}
_MANY = 3  # operators of an eager program, from which on launching and traffic add up
_LAUNCH = 10e-6  # seconds of an operator on a GPU, below which its launch counts
_FAULT = 0.25e-6  # seconds that the kernel takes to map and clear a page, at least
_WALK = 10e-9  # seconds of a walk through the page tables that the caches hold
_WORTH = 0.05  # of a call's time: what could gain less is left for later
_MOST_LINES = 7
_MOST_FUNCTIONS = 3  # that a line names
# The rate that arithmetic can reach under each precision policy; explicit tolerances are strict.
_RATES = {"tf32": "tf32", "half": "float16"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagnosisGround:
    """What a diagnosis stands on, the same for every attempt of a run.

    Attributes:
        work: what the task costs at least.
        operators: compute operators that eager runs one after the other.
        target: peak rates; on a CPU those of one core, since one thread is timed.
        bandwidth: bytes/s that the program can move: on a CPU what its threads can, see
            `search.costs.bandwidth`.
        baselines: seconds of eager and, where it ran, of torch.compile.
        precision: the task's policy; anything but ``tf32`` and ``half`` counts as strict.
        look: looks closer at a program that passed (hardware counters, a compiler's report); it
            may add features to its profile and findings of its own.
    """

    work: Work
    operators: int
    target: TargetRecord
    bandwidth: float
    baselines: Mapping[str, float]
    precision: str = "strict"
    look: Callable[[Attempt], Look] | None = None


_NOTHING = Look()
_CONFIDENCE: Mapping[Evidence, Confidence] = {
    COUNTED: "high",
    TOLD: "high",
    OPERATORS: "high",
    SEEN: "medium",
    INFERRED: "low",
}


def diagnose(ground: DiagnosisGround, attempt: Attempt | None) -> Diagnosis:
    """Say what holds a program back.

    Args:
        attempt: the program, None for the reference under eager.

    Returns:
        Symptoms from `kb.records.schema.SYMPTOMS`, the most telling first.
    """
    outcome = attempt.outcome if attempt is not None else None
    if isinstance(outcome, Checked):
        return _diagnosis(_static(outcome), ())
    look = _NOTHING
    if attempt is not None and ground.look is not None and isinstance(outcome, Passed):
        look = _look(ground.look, attempt)
    if attempt is None:
        look = Look(notes=_baselines(ground.baselines))
    if ground.target.device == "gpu":
        return _diagnosis([*_on_gpu(ground, attempt, look), *look.findings], look.notes)
    return _on_cpu(ground, attempt, look)


def _baselines(seconds: Mapping[str, float]) -> tuple[str, ...]:
    """Return how far torch.compile comes: what is left beyond it no compiler of its kind finds."""
    if "eager" not in seconds or "compile" not in seconds:
        return ()
    times = f"{duration(seconds['compile'])} where eager takes {duration(seconds['eager'])}"
    return (f"torch.compile takes {times}.",)


def _look(closer: Callable[[Attempt], Look], attempt: Attempt) -> Look:
    try:
        return closer(attempt)
    except KbError:
        raise
    except Exception as error:  # noqa: BLE001 - a candidate's text and figures may make it raise anything
        return Look(notes=(f"No closer look at it: it makes kb raise {type(error).__name__}.",))


def _diagnosis(found: Sequence[Finding], notes: Sequence[str]) -> Diagnosis:
    """Order findings by what they could gain; name those of little worth in one line."""
    best: dict[str, Finding] = {}
    for finding in sorted(found, key=lambda finding: -finding.gain):
        best.setdefault(finding.symptom, finding)
    worth = [f for f in best.values() if f.gain >= _WORTH][:_MOST_LINES]
    later = [f.symptom for f in best.values() if f not in worth and not f.headline]
    lines = [f.text for f in found if f.headline]
    lines += [f"{finding.text} ({finding.evidence})" for finding in worth if not finding.headline]
    if later:
        lines.append(f"Leave for later, each is worth little now: {', '.join(later)}.")
    chosen = worth or list(best.values())[:1]
    first = [f for f in found if f.headline]
    order = [*first, *(f for f in worth if not f.headline)]
    return Diagnosis(
        symptoms=tuple(f.symptom for f in chosen if f.symptom in SYMPTOMS),
        lines=(*lines, *notes),
        points=(
            *(_point(f) for f in order),
            *(_point(f, later=True) for f in best.values() if f.symptom in later),
        ),
        notes=tuple(notes),
    )


def _point(finding: Finding, *, later: bool = False) -> Bottleneck:
    return Bottleneck(
        symptom=finding.symptom,
        text=finding.text,
        evidence=finding.evidence,
        confidence=_CONFIDENCE[finding.evidence],
        gain=None if finding.headline else min(1.0, finding.gain),
        later=later,
    )


def _on_gpu(ground: DiagnosisGround, attempt: Attempt | None, look: Look) -> tuple[Finding, ...]:
    outcome = attempt.outcome if attempt is not None else None
    passed = outcome if isinstance(outcome, Passed) else None
    seconds = ground.baselines.get("eager", inf) if attempt is None else attempt.seconds
    if seconds == inf:  # nothing is timed where the device is not
        rate = _RATES.get(ground.precision, "float32")
        least = least_times(ground.work, ground.target.peak, ground.bandwidth, rate)
        return (least, *_eager(ground, seconds)) if attempt is None else ()
    rate, peak = _peak(ground, seconds)
    program = ProgramFacts(
        work=ground.work,
        target=ground.target,
        rate=rate,
        peak=peak,
        bandwidth=ground.bandwidth,
        seconds=seconds,
        profile={**(passed.profile if passed else {}), **look.features},
        kernels=passed.kernels if passed else (),
        losses=passed.losses if passed else (),
        own_share=passed.own_share if passed else None,
        strict=ground.precision not in _RATES,
    )
    return (*findings(program), *(_eager(ground, seconds) if attempt is None else ()))


def _peak(ground: DiagnosisGround, seconds: float) -> tuple[str, float]:
    """Return the rate to compare with, and its name.

    A strict product that runs faster than ordinary float32 arithmetic can is made of half-precision
    products on tensor cores, three of them for one of float32's accuracy.
    """
    peaks = ground.target.peak
    rate = product_rate(ground.work, peaks, _RATES.get(ground.precision, "float32"))
    half = peaks.get("float16", 0.0) / SPLIT
    if rate == "float32" and ground.work.flops / seconds > peaks[rate] < half:
        return "float32 as three half-precision products", half
    return rate, peaks[rate]


def _eager(ground: DiagnosisGround, seconds: float) -> list[Finding]:
    """Return what follows for the reference from its operators alone."""
    found = []
    work = ground.work
    if work.traffic > 1.5 * work.bytes:
        found.append(
            Finding(
                symptom="intermediate-traffic",
                text=_traffic(work),
                gain=1 - work.bytes / work.traffic,
                evidence=INFERRED,
            )
        )
    if ground.operators >= _MANY:
        found.append(
            Finding(
                symptom="many-small-operators",
                text=f"Eager runs {ground.operators} operators one after the other.",
                gain=0.5,
                evidence=OPERATORS,
            )
        )
    if seconds < _LAUNCH * ground.operators:
        found.append(
            Finding(
                symptom="launch-bound",
                text=f"{duration(seconds)} for {ground.operators} operators is little more than their launches.",
                gain=0.6,
                evidence=INFERRED,
            )
        )
    return found


def _static(outcome: Checked) -> list[Finding]:
    """Return what the compiler's figures tell of a program that was not run on its device."""
    found = []
    for kernel in outcome.kernels:
        where = f"{kernel.name} for {kernel.architecture}"
        if kernel.spills:
            found.append(
                Finding(
                    symptom="register-spills",
                    text=f"{where} spills {kernel.spills} bytes a thread.",
                    gain=0.3,
                    evidence=TOLD,
                )
            )
        found += [lossy(f"{loss}, in {where}", gain=0.3) for loss in kernel.losses]
        if kernel.occupancy < 0.25:
            why = f", limited by {' and '.join(kernel.limited_by)}" if kernel.limited_by else ""
            pressed = "registers" in kernel.limited_by
            found.append(
                Finding(
                    symptom="register-pressure" if pressed else "low-occupancy",
                    text=f"{where} keeps {kernel.occupancy:.0%} of the warps resident at most{why} "
                    f"({kernel.registers} registers a thread, {kernel.shared / 1024:.0f} KiB of shared memory a block).",
                    gain=0.1,
                    evidence=TOLD,
                )
            )
    launches = sum(kernel.launches for kernel in outcome.kernels)
    if launches >= _MANY:
        found.append(
            Finding(
                symptom="many-small-operators",
                text=f"A call launches {launches} kernels, each reads and writes memory.",
                gain=0.4,
                evidence=SEEN,
            )
        )
    return found


def _on_cpu(ground: DiagnosisGround, attempt: Attempt | None, look: Look) -> Diagnosis:
    outcome = attempt.outcome if attempt is not None else None
    passed = outcome if isinstance(outcome, Passed) else None
    seconds = ground.baselines.get("eager", inf) if attempt is None else attempt.seconds
    bound, share = _bound(ground, seconds)
    known = _of_operators(ground) if attempt is None else _of_library(passed)
    guesses: list[Finding] = []
    if seconds != inf:
        # What the compiler or the processor told is evidence; what follows from families is a guess.
        profile = passed.profile if passed is not None else {}
        known = [*known, bound, *_counted(ground.work, profile, seconds), *look.findings]
        guesses = _guesses(ground.work, bound.symptom, share)
    elif attempt is None:
        known = [*known, bound]
    found: dict[str, Finding] = {}
    for finding in (*known, *guesses):
        found.setdefault(finding.symptom, finding)
    waiting = {finding.symptom for finding in guesses if found[finding.symptom] is finding}
    evident = len(found) - len(waiting) > 1  # beside the bound that every program has
    return Diagnosis(
        symptoms=tuple(symptom for symptom in found if symptom in SYMPTOMS),
        lines=(
            *(one.text if name in waiting else _line(one) for name, one in found.items()),
            *look.notes,
        ),
        points=tuple(
            replace(_point(found[name], later=evident and name in waiting), gain=None)
            for name in sorted(found, key=lambda name: name != bound.symptom)
        ),
        notes=tuple(look.notes),
    )


def _line(finding: Finding) -> str:
    """Return a finding with its evidence, which figures of the program itself do without."""
    plain = finding.evidence in (SEEN, OPERATORS)
    return finding.text if plain else f"{finding.text} ({finding.evidence})"


def _bound(ground: DiagnosisGround, seconds: float) -> tuple[Finding, float]:
    """Return which of memory and arithmetic binds a program, and its share of what they allow."""
    work = ground.work
    peak = ground.target.peak["float32"] / ground.target.units
    memory, compute = work.bytes / ground.bandwidth, work.flops / peak
    floor = max(memory, compute)
    symptom, cause = (
        ("compute-bound", "arithmetic") if compute > memory else ("memory-bound", "traffic")
    )
    intensity = work.flops / max(work.bytes, 1.0)
    least = f"{symptom.capitalize()}: at least {duration(floor)} by {cause} ({intensity:.1f} FLOP a byte)"
    if seconds == inf:
        text, evidence = f"{least}; how long it takes was not measured", INFERRED
    else:
        text, evidence = beyond(cause, floor, seconds), SEEN
        text = text or (
            f"{least}, it takes {duration(seconds)}, "
            f"{work.flops / seconds / 1e9:.1f} of {peak / 1e9:.0f} GFLOP/s float32 of one core and "
            f"{work.bytes / seconds / 1e9:.1f} of {ground.bandwidth / 1e9:.0f} GB/s."
        )
    return Finding(symptom=symptom, text=text, gain=0.0, evidence=evidence), floor / seconds


def _traffic(work: Work) -> str:
    return (
        f"Eager moves {work.traffic / 1e6:.1f} MB where {work.bytes / 1e6:.1f} MB would do: "
        "intermediate tensors are written and read back."
    )


def _of_operators(ground: DiagnosisGround) -> list[Finding]:
    """Return what follows for eager on a processor from the reference's operators."""
    found = []
    if ground.work.traffic > 1.5 * ground.work.bytes:
        found.append(_counts("intermediate-traffic", _traffic(ground.work), OPERATORS))
    if ground.operators >= _MANY:
        text = f"Eager runs {ground.operators} operators one after the other."
        found.append(_counts("many-small-operators", text, OPERATORS))
    return found


def _of_library(outcome: Passed | None) -> list[Finding]:
    if outcome is None or outcome.own_share is None or outcome.own_share >= 0.5:
        return []
    text = (
        f"{1 - outcome.own_share:.0%} of the time is spent in library operators, "
        "outside the candidate's own kernels."
    )
    return [_counts("redundant-work", text, SEEN)]


def _counts(symptom: str, text: str, evidence: Evidence) -> Finding:
    """Return a finding on a processor, where nobody knows what mending it could gain."""
    return Finding(symptom=symptom, text=text, gain=0.0, evidence=evidence)


def _counted(work: Work, profile: Mapping[str, float], seconds: float) -> Iterator[Finding]:
    """Yield what the kernel and the processor counted, where it takes a tenth of the call or more."""
    faults = profile.get("perf_page_faults", 0.0)
    if faults * _FAULT > 0.1 * seconds:
        text = (
            f"{faults:.0f} page faults a call: fresh memory is touched for the first time inside it"
        )
        yield _counts("page-faults", text, COUNTED)
    misses = profile.get("perf_tlb_misses", 0.0)
    if misses * _WALK > 0.1 * seconds:
        yield _counts("tlb-misses", f"{misses:.0f} misses of the TLB a call", COUNTED)
    moved = 64 * profile.get("perf_cache_misses", 0.0)
    if moved > 1.5 * work.bytes:
        text = f"{moved / 1e6:.1f} MB come from memory where {work.bytes / 1e6:.1f} MB would do"
        yield _counts("several-passes", text, COUNTED)


def _guesses(work: Work, bound: str, share: float) -> list[Finding]:
    """Return what may hold back a program far from the hardware's limit, from its operators."""
    if share > 0.6:
        return []
    far = f"only {share:.0%} of what the hardware allows"
    functions = ", ".join(work.functions[:_MOST_FUNCTIONS])
    guesses: dict[str, str] = {}
    if bound == "compute-bound":
        guesses["not-vectorised"] = f"Arithmetic runs at {far}: vector width, unrolling or reuse."
        guesses["poor-cache-reuse"] = f"Operands may come from far away: {far}."
    elif _ROW_FAMILIES & set(work.families):
        guesses["serial-reduction"] = (
            f"Row reductions run at {far}: dependent adds, several passes."
        )
        if work.functions:
            guesses["slow-transcendentals"] = f"{functions} may limit the passes over a row."
    elif "elementwise" in work.families:
        if work.functions:
            guesses["slow-transcendentals"] = f"Elementwise work, {functions}, runs at {far}."
        guesses["page-faults"] = "Fresh outputs are touched for the first time inside the call."
    return [_counts(symptom, text, INFERRED) for symptom, text in guesses.items()]
