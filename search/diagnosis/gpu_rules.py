"""What holds a program back on a GPU: findings from roofline, timeline, resources and counters.

Each rule reads a few features of an outcome's profile and answers with at most a few findings. A
rule whose features are missing says nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from search.costs.graph import Work
from search.diagnosis.facts import NEAR, ProgramFacts, Rule, beyond
from search.diagnosis.ncu_rules import COUNTER_RULES
from search.finding import COUNTED, INFERRED, SEEN, TOLD, Finding, lossy
from search.profilers.static_resources import Occupancy, occupancy
from synth.device_facts import duration

SPLIT = 3  # products of halves for one of float32's accuracy
_PRODUCTS = {"matmul", "convolution", "attention"}
_ROWS = {"softmax", "normalization", "reduction", "loss", "scan"}


def findings(program: ProgramFacts) -> tuple[Finding, ...]:
    """Return what holds the program back, what could gain most first; one finding a symptom."""
    best: dict[str, Finding] = {}
    for rule in RULES:
        for finding in rule(program):
            before = best.get(finding.symptom)
            if before is None or finding.gain > before.gain:
                best[finding.symptom] = finding
    return tuple(sorted(best.values(), key=lambda finding: -finding.gain))


def _bound(program: ProgramFacts) -> Iterator[Finding]:
    """Say which ceiling is the nearer one, and how far away it is."""
    compute = program.compute_floor > program.memory_floor
    floor = max(program.compute_floor, program.memory_floor)
    intensity = program.work.flops / max(program.work.bytes, 1.0)
    if compute:
        told = f"{program.work.flops / program.seconds / 1e12:.3g} of {program.peak / 1e12:.3g} TFLOP/s {program.rate}"
    else:
        told = f"{program.work.bytes / program.seconds / 1e9:.0f} of {program.bandwidth / 1e9:.0f} GB/s"
    share = floor / program.seconds
    busy = program.busy
    # Where the counters find nothing busy, the ceiling that is nearer is not what holds it back.
    idle = busy is not None and busy < 0.5
    # What is lost between launches is no fault of the memory's or of the arithmetic.
    running = 1 - (program.get("gap_share") or 0.0)
    kind = "Compute" if compute else "Memory"
    yield Finding(
        symptom=f"{kind.lower()}-bound",
        text=beyond("arithmetic" if compute else "traffic", floor, program.seconds)
        or f"{kind}-bound by its least work ({intensity:.1f} FLOP a byte): at least {duration(floor)}, it takes "
        f"{duration(program.seconds)}, {share:.0%} of what the device allows ({told}).",
        gain=running * max(0.0, 1 - share) * (0.3 if idle else 1.0),
        evidence=SEEN,
        headline=True,
    )


def _launches(program: ProgramFacts) -> Iterator[Finding]:
    gap, launches, host = (
        program.get("gap_share"),
        program.get("launches"),
        program.get("host_seconds"),
    )
    if gap is None or launches is None:
        return
    kernels = program.get("kernels") or launches
    if gap > 0.2 and launches > 1:  # beside one launch it is what a launch costs
        calls = f", the host needs {duration(host)} a call" if host else ""
        yield Finding(
            symptom="launch-bound",
            text=f"The device idles {gap:.0%} of a call with {launches:.0f} launches{calls}: fewer kernels, or a "
            "captured graph.",
            gain=gap,
            evidence=SEEN,
        )
    if kernels >= 3:
        yield Finding(
            symptom="many-small-operators",
            text=f"{launches:.0f} launches of {kernels:.0f} kernels a call, each reads and writes memory.",
            gain=min(0.9, 1 - 1 / kernels) * (1 - gap) * 0.5,
            evidence=SEEN,
        )


def _library(program: ProgramFacts) -> Iterator[Finding]:
    if program.own_share is None or program.own_share >= 0.5:
        return
    others = [kernel for kernel in program.kernels if not kernel.own]
    named = f", most in {others[0].name}" if others else ""
    yield Finding(
        symptom="redundant-work",
        text=f"{1 - program.own_share:.0%} of the time is spent in library operators, outside the candidate's own "
        f"kernels{named}.",
        gain=(1 - program.own_share) * 0.5,
        evidence=SEEN,
    )


def _copies(program: ProgramFacts) -> Iterator[Finding]:
    share = program.get("copy_share")
    if share is not None and share > 0.05:
        yield Finding(
            symptom="intermediate-traffic",
            text=f"Copies and fills take {share:.0%} of the device's time: write the result where it belongs.",
            gain=share,
            evidence=SEEN,
        )


def _spills(program: ProgramFacts) -> Iterator[Finding]:
    counted, told = program.get("ncu_spill_bytes"), program.get("spill_bytes")
    if counted:
        yield Finding(
            symptom="register-spills",
            text=f"Local memory takes {counted / 1e6:.1f} MB of traffic a call ({program.get('ncu_registers') or 0:.0f} "
            "registers a thread): smaller tiles, or more warps for the same tile.",
            gain=min(0.9, counted / max(program.get("ncu_l2_bytes") or program.work.bytes, 1.0)),
            evidence=COUNTED,
        )
    elif told:
        yield Finding(
            symptom="register-spills",
            text=f"The compiler spills {told:.0f} bytes a thread to local memory: smaller tiles, or more warps a tile.",
            gain=min(0.5, 0.05 + told / 1024),
            evidence=TOLD,
        )


def _occupancy(program: ProgramFacts) -> Iterator[Finding]:
    reached = program.get("ncu_occupancy")
    evidence = COUNTED if reached is not None else SEEN
    reached = reached if reached is not None else program.get("occupancy")
    reached = reached if reached is not None else _resident(program)
    if reached is None or reached >= 0.4:
        return
    busy = program.busy or 0.0
    if busy >= NEAR:
        return  # few warps that keep the device busy are no fault
    why, symptom = _limit(program)
    yield Finding(
        symptom=symptom,
        text=f"Only {reached:.0%} of the warps that an SM can hold are resident{why}.",
        gain=(0.4 - reached) * (1 - busy),
        evidence=evidence,
    )


def _fit(program: ProgramFacts) -> Occupancy | None:
    """Return how the longest kernel fits on an SM, None where its launch or the limits are unknown."""
    threads = program.get("threads", "ncu_threads")
    if not threads:
        return None
    registers = program.get("registers", "ncu_registers") or 0
    shared = program.get("shared_bytes", "ncu_shared_bytes") or 0
    try:
        return occupancy(program.target.limits, int(registers), int(shared), int(threads))
    except ValueError:
        return None


def _resident(program: ProgramFacts) -> float | None:
    """Return the share of an SM's warps that the launch can fill, None where that is unknown."""
    fit, blocks = _fit(program), program.get("blocks", "ncu_blocks")
    if fit is None or not fit.blocks or not blocks:
        return None
    return fit.fraction * min(1.0, blocks / program.target.units / fit.blocks)


def _limit(program: ProgramFacts) -> tuple[str, str]:
    """Return what limits occupancy, in words, and the symptom that it amounts to."""
    fit, blocks, units = _fit(program), program.get("blocks", "ncu_blocks"), program.target.units
    if fit is None:
        return "", "low-occupancy"
    if blocks and blocks < units * max(fit.blocks, 1) and fit.fraction > 0.4:
        return (
            f": {blocks:.0f} blocks on {units} SMs, each of which takes {fit.blocks}; split the work further",
            "low-occupancy",
        )
    registers = program.get("registers", "ncu_registers") or 0
    if "registers" in fit.limited_by:
        return f", limited by {registers:.0f} registers a thread", "register-pressure"
    if "shared memory" in fit.limited_by:
        shared = program.get("shared_bytes", "ncu_shared_bytes") or 0
        return f", limited by {shared / 1024:.0f} KiB of shared memory a block", "low-occupancy"
    return f", limited by the number of {' and '.join(fit.limited_by)}", "low-occupancy"


def _tail(program: ProgramFacts) -> Iterator[Finding]:
    waves, blocks = program.get("ncu_waves"), program.get("blocks", "ncu_blocks")
    fit, units = _fit(program), program.target.units
    if waves is None and fit is not None and fit.blocks and blocks:
        waves = blocks / (fit.blocks * units)
    if waves is None or waves <= 0:
        return
    lost = 1 - waves / math.ceil(waves)
    if lost > 0.1 and waves > 1:
        yield Finding(
            symptom="tail-effect",
            text=f"{waves:.2f} waves of blocks: the last leaves {math.ceil(waves) - waves:.0%} of the device idle.",
            gain=lost,
            evidence=COUNTED if "ncu_waves" in program.profile else INFERRED,
        )
    elif waves <= 1 and blocks and blocks < 0.9 * units:
        yield Finding(
            symptom="tail-effect",
            text=f"{blocks:.0f} blocks leave {1 - blocks / units:.0%} of the {units} SMs without work: split rows or "
            "the reduction across blocks.",
            gain=1 - blocks / units,
            evidence=SEEN,
        )


def _losses(program: ProgramFacts) -> Iterator[Finding]:
    """Pass on what the compiler warns of: serialised wgmma shows in no register count and no spill."""
    for loss in program.losses:
        yield lossy(loss, gain=0.5)


def _tensor_cores(program: ProgramFacts) -> Iterator[Finding]:
    if not _PRODUCTS & set(program.work.families) or program.compute_floor < program.memory_floor:
        return
    share = program.get("ncu_tensor_share")
    rate = program.work.flops / program.seconds
    ordinary = program.target.peak.get("float32", math.inf)
    if share is not None and share < 0.3:
        text, evidence = f"Tensor cores work {share:.0%} of the time", COUNTED
    elif share is None and rate < ordinary:
        text, evidence = f"{rate / 1e12:.3g} TFLOP/s need no tensor core", INFERRED
    else:
        return
    hint = (
        ": split float32 operands into halves and sum the products"
        if program.strict
        else f": feed them {program.rate} operands"
    )
    yield Finding(symptom="tensor-cores-idle", text=f"{text}{hint}.", gain=0.5, evidence=evidence)


def _rows(program: ProgramFacts) -> Iterator[Finding]:
    """Without counters, a row operator far from the memory's ceiling most likely reads twice."""
    if "ncu_dram_bytes" in program.profile or not _ROWS & set(program.work.families):
        return
    share = program.memory_floor / program.seconds
    if program.memory_floor >= program.compute_floor and share < 0.6:
        yield Finding(
            symptom="several-passes",
            text=f"At {share:.0%} of the bandwidth a row operator often reads its rows {_times(share)}: keep the row on "
            "the chip between the passes, or make one pass.",
            gain=0.5 * (1 - share),
            evidence=INFERRED,
        )


def _times(share: float) -> str:
    return "twice" if share > 0.4 else "several times"


def _memory_peak(program: ProgramFacts) -> Iterator[Finding]:
    peak, reference = program.get("peak_bytes"), program.get("reference_peak_bytes")
    if peak and reference and peak > 1.5 * reference:
        yield Finding(
            symptom="intermediate-traffic",
            text=f"It holds {peak / 1e6:.0f} MB at its peak, the reference {reference / 1e6:.0f} MB: workspaces are "
            "written and read back.",
            gain=0.15,
            evidence=SEEN,
        )


RULES: tuple[Rule, ...] = (
    _bound, _launches, _library, _copies, _spills, _occupancy, _tail, _losses, _tensor_cores, _rows,
    _memory_peak, *COUNTER_RULES,
)  # fmt: skip


def product_rate(work: Work, peaks: Mapping[str, float], rate: str) -> str:
    """Return the type by whose peak products are measured: of numbers of two bytes, these.

    Args:
        rate: the type that the task's precision allows of float32.
    """
    rate = rate if rate in peaks else "float32"
    if not work.short_products:
        return rate
    return max((rate, "bfloat16", "float16"), key=lambda name: peaks.get(name, 0.0))


def least_times(work: Work, peaks: Mapping[str, float], bandwidth: float, rate: str) -> Finding:
    """Return what a GPU that is not here would take at least, by its peaks.

    Args:
        peaks: FLOP/s of the device by type.
        bandwidth: bytes a second.
        rate: the type that the task's precision allows.
    """
    rate = product_rate(work, peaks, rate)
    memory, compute = work.bytes / bandwidth, work.flops / peaks[rate]
    arithmetic = f"{duration(compute)} at the peak of {rate}"
    half = peaks.get("float16", 0.0) / SPLIT
    if rate == "float32" and half > peaks[rate]:
        halves = duration(work.flops / half)
        arithmetic += f", {halves} where products are three of halves at its accuracy"
    symptom = "compute-bound" if compute > memory else "memory-bound"
    return Finding(
        symptom=symptom,
        text=f"Its arithmetic takes {arithmetic}; what has to be moved takes {duration(memory)}, "
        f"what eager moves {duration(work.traffic / bandwidth)}. Nothing was measured.",
        gain=0.0,
        evidence=INFERRED,
        headline=True,
    )
