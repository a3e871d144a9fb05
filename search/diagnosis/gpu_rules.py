"""What holds a program back on a GPU: findings from roofline, timeline, resources and counters.

Each rule reads a few features of an outcome's profile and answers with at most a few findings. A
rule whose features are missing says nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from search.diagnosis.facts import NEAR, ProgramFacts, Rule, beyond, duration
from search.diagnosis.ncu_rules import COUNTER_RULES
from search.finding import COUNTED, INFERRED, SEEN, TOLD, Finding, lossy
from search.profilers.static_resources import Occupancy, occupancy

_PRODUCTS = {"matmul", "convolution", "attention"}
_ROWS = {"softmax", "normalization", "reduction", "loss", "scan"}


def findings(scene: ProgramFacts) -> tuple[Finding, ...]:
    """Return what holds the program back, what could gain most first; one finding a symptom."""
    best: dict[str, Finding] = {}
    for rule in RULES:
        for finding in rule(scene):
            before = best.get(finding.symptom)
            if before is None or finding.gain > before.gain:
                best[finding.symptom] = finding
    return tuple(sorted(best.values(), key=lambda finding: -finding.gain))


def _bound(scene: ProgramFacts) -> Iterator[Finding]:
    """Say which ceiling is the nearer one, and how far away it is."""
    compute = scene.compute_floor > scene.memory_floor
    floor = max(scene.compute_floor, scene.memory_floor)
    intensity = scene.work.flops / max(scene.work.bytes, 1.0)
    if compute:
        told = f"{scene.work.flops / scene.seconds / 1e12:.3g} of {scene.peak / 1e12:.3g} TFLOP/s {scene.rate}"
    else:
        told = f"{scene.work.bytes / scene.seconds / 1e9:.0f} of {scene.bandwidth / 1e9:.0f} GB/s"
    share = floor / scene.seconds
    busy = scene.busy
    # Where the counters find nothing busy, the ceiling that is nearer is not what holds it back.
    idle = busy is not None and busy < 0.5
    # What is lost between launches is no fault of the memory's or of the arithmetic.
    running = 1 - (scene.get("gap_share") or 0.0)
    kind = "Compute" if compute else "Memory"
    yield Finding(
        symptom=f"{kind.lower()}-bound",
        text=beyond("arithmetic" if compute else "traffic", floor, scene.seconds)
        or f"{kind}-bound by its least work ({intensity:.1f} FLOP a byte): at least {duration(floor)}, it takes "
        f"{duration(scene.seconds)}, {share:.0%} of what the device allows ({told}).",
        gain=running * max(0.0, 1 - share) * (0.3 if idle else 1.0),
        evidence=SEEN,
        headline=True,
    )


def _launches(scene: ProgramFacts) -> Iterator[Finding]:
    gap, launches, host = scene.get("gap_share"), scene.get("launches"), scene.get("host_seconds")
    if gap is None or launches is None:
        return
    kernels = scene.get("kernels") or launches
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


def _library(scene: ProgramFacts) -> Iterator[Finding]:
    if scene.own_share is None or scene.own_share >= 0.5:
        return
    others = [kernel for kernel in scene.kernels if not kernel.own]
    named = f", most in {others[0].name}" if others else ""
    yield Finding(
        symptom="redundant-work",
        text=f"{1 - scene.own_share:.0%} of the time is spent in library operators, outside the candidate's own "
        f"kernels{named}.",
        gain=(1 - scene.own_share) * 0.5,
        evidence=SEEN,
    )


def _copies(scene: ProgramFacts) -> Iterator[Finding]:
    share = scene.get("copy_share")
    if share is not None and share > 0.05:
        yield Finding(
            symptom="intermediate-traffic",
            text=f"Copies and fills take {share:.0%} of the device's time: write the result where it belongs.",
            gain=share,
            evidence=SEEN,
        )


def _spills(scene: ProgramFacts) -> Iterator[Finding]:
    counted, told = scene.get("ncu_spill_bytes"), scene.get("spill_bytes")
    if counted:
        yield Finding(
            symptom="register-spills",
            text=f"Local memory takes {counted / 1e6:.1f} MB of traffic a call ({scene.get('ncu_registers') or 0:.0f} "
            "registers a thread): smaller tiles, or more warps for the same tile.",
            gain=min(0.9, counted / max(scene.get("ncu_l2_bytes") or scene.work.bytes, 1.0)),
            evidence=COUNTED,
        )
    elif told:
        yield Finding(
            symptom="register-spills",
            text=f"The compiler spills {told:.0f} bytes a thread to local memory: smaller tiles, or more warps a tile.",
            gain=min(0.5, 0.05 + told / 1024),
            evidence=TOLD,
        )


def _occupancy(scene: ProgramFacts) -> Iterator[Finding]:
    reached = scene.get("ncu_occupancy")
    evidence = COUNTED if reached is not None else SEEN
    reached = reached if reached is not None else scene.get("occupancy")
    reached = reached if reached is not None else _resident(scene)
    if reached is None or reached >= 0.4:
        return
    busy = scene.busy or 0.0
    if busy >= NEAR:
        return  # few warps that keep the device busy are no fault
    why, symptom = _limit(scene)
    yield Finding(
        symptom=symptom,
        text=f"Only {reached:.0%} of the warps that an SM can hold are resident{why}.",
        gain=(0.4 - reached) * (1 - busy),
        evidence=evidence,
    )


def _fit(scene: ProgramFacts) -> Occupancy | None:
    """Return how the longest kernel fits on an SM, None where its launch or the limits are unknown."""
    threads = scene.get("threads", "ncu_threads")
    if not threads:
        return None
    registers = scene.get("registers", "ncu_registers") or 0
    shared = scene.get("shared_bytes", "ncu_shared_bytes") or 0
    try:
        return occupancy(scene.target.limits, int(registers), int(shared), int(threads))
    except ValueError:
        return None


def _resident(scene: ProgramFacts) -> float | None:
    """Return the share of an SM's warps that the launch can fill, None where that is unknown."""
    fit, blocks = _fit(scene), scene.get("blocks", "ncu_blocks")
    if fit is None or not fit.blocks or not blocks:
        return None
    return fit.fraction * min(1.0, blocks / scene.target.units / fit.blocks)


def _limit(scene: ProgramFacts) -> tuple[str, str]:
    """Return what limits occupancy, in words, and the symptom that it amounts to."""
    fit, blocks, units = _fit(scene), scene.get("blocks", "ncu_blocks"), scene.target.units
    if fit is None:
        return "", "low-occupancy"
    if blocks and blocks < units * max(fit.blocks, 1) and fit.fraction > 0.4:
        return (
            f": {blocks:.0f} blocks on {units} SMs, each of which takes {fit.blocks}; split the work further",
            "low-occupancy",
        )
    registers = scene.get("registers", "ncu_registers") or 0
    if "registers" in fit.limited_by:
        return f", limited by {registers:.0f} registers a thread", "register-pressure"
    if "shared memory" in fit.limited_by:
        shared = scene.get("shared_bytes", "ncu_shared_bytes") or 0
        return f", limited by {shared / 1024:.0f} KiB of shared memory a block", "low-occupancy"
    return f", limited by the number of {' and '.join(fit.limited_by)}", "low-occupancy"


def _tail(scene: ProgramFacts) -> Iterator[Finding]:
    waves, blocks = scene.get("ncu_waves"), scene.get("blocks", "ncu_blocks")
    fit, units = _fit(scene), scene.target.units
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
            evidence=COUNTED if "ncu_waves" in scene.profile else INFERRED,
        )
    elif waves <= 1 and blocks and blocks < 0.9 * units:
        yield Finding(
            symptom="tail-effect",
            text=f"{blocks:.0f} blocks leave {1 - blocks / units:.0%} of the {units} SMs without work: split rows or "
            "the reduction across blocks.",
            gain=1 - blocks / units,
            evidence=SEEN,
        )


def _losses(scene: ProgramFacts) -> Iterator[Finding]:
    """Pass on what the compiler warns of: serialised wgmma shows in no register count and no spill."""
    for loss in scene.losses:
        yield lossy(loss, gain=0.5)


def _tensor_cores(scene: ProgramFacts) -> Iterator[Finding]:
    if not _PRODUCTS & set(scene.work.families) or scene.compute_floor < scene.memory_floor:
        return
    share = scene.get("ncu_tensor_share")
    rate = scene.work.flops / scene.seconds
    ordinary = scene.target.peak.get("float32", math.inf)
    if share is not None and share < 0.3:
        text, evidence = f"Tensor cores work {share:.0%} of the time", COUNTED
    elif share is None and rate < ordinary:
        text, evidence = f"{rate / 1e12:.3g} TFLOP/s need no tensor core", INFERRED
    else:
        return
    hint = (
        ": split float32 operands into halves and sum the products"
        if scene.strict
        else f": feed them {scene.rate} operands"
    )
    yield Finding(symptom="tensor-cores-idle", text=f"{text}{hint}.", gain=0.5, evidence=evidence)


def _rows(scene: ProgramFacts) -> Iterator[Finding]:
    """Without counters, a row operator far from the memory's ceiling most likely reads twice."""
    if "ncu_dram_bytes" in scene.profile or not _ROWS & set(scene.work.families):
        return
    share = scene.memory_floor / scene.seconds
    if scene.memory_floor >= scene.compute_floor and share < 0.6:
        yield Finding(
            symptom="several-passes",
            text=f"At {share:.0%} of the bandwidth a row operator often reads its rows {_times(share)}: keep the row on "
            "the chip between the passes, or make one pass.",
            gain=0.5 * (1 - share),
            evidence=INFERRED,
        )


def _times(share: float) -> str:
    return "twice" if share > 0.4 else "several times"


def _memory_peak(scene: ProgramFacts) -> Iterator[Finding]:
    peak, reference = scene.get("peak_bytes"), scene.get("reference_peak_bytes")
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
