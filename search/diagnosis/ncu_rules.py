"""What the hardware's counters tell of a program: the rules that need Nsight Compute.

A rule whose counters are missing says nothing: an absent counter is no evidence.
"""

from __future__ import annotations

from collections.abc import Iterator

from search.diagnosis.facts import NEAR, ProgramFacts, Rule
from search.finding import COUNTED, Finding

_FULL_LANES = 32.0
# Counters that say why warps wait, as Nsight Compute names them, with what each tells.
_STALLS: dict[str, tuple[str, str]] = {
    "long_scoreboard": ("latency-bound", "wait for global or local memory"),
    "barrier": ("synchronisation", "wait at a barrier of their block"),
    "membar": ("synchronisation", "wait at a memory fence"),
    "short_scoreboard": ("bank-conflicts", "wait for shared memory or special functions"),
    "mio_throttle": ("bank-conflicts", "queue for shared memory and special functions"),
    "lg_throttle": ("uncoalesced-access", "queue for global loads: too many narrow ones"),
    "math_pipe_throttle": ("compute-bound", "queue for an arithmetic pipe"),
    "wait": ("latency-bound", "wait a fixed time between dependent instructions"),
    "branch_resolving": ("branch-divergence", "wait for a branch"),
    "no_instruction": ("redundant-work", "wait for instructions: the code outgrows its cache"),
    "gmma": ("tensor-cores-idle", "wait for a product on the tensor cores"),
    "sleeping": ("synchronisation", "sleep"),
}


def _passes(program: ProgramFacts) -> Iterator[Finding]:
    """Compare the bytes that crossed to memory with the bytes that had to."""
    moved = program.get("ncu_dram_bytes")
    if moved is None or moved < 1.3 * program.work.bytes or moved < 1e6:
        return
    if (program.get("ncu_load_efficiency") or 1.0) < 0.5:
        return  # what is fetched and not used explains it
    if (program.get("ncu_spill_bytes") or 0.0) > 0.5 * moved:
        return  # so does what is spilled
    ratio = moved / program.work.bytes
    hit = program.get("ncu_l2_hit")
    text = f"It moves {moved / 1e6:.0f} MB through memory where {program.work.bytes / 1e6:.0f} MB would do ({ratio:.1f} times)"
    share = program.get("ncu_dram_share")
    gain = (1 - 1 / ratio) * (share if share is not None else 0.7)
    yield Finding(
        symptom="several-passes",
        text=f"{text}: keep what is read twice on the chip.",
        gain=gain,
        evidence=COUNTED,
    )
    l2 = program.target.caches.get("l2")
    if hit is not None and hit < 0.4 and l2 is not None:
        yield Finding(
            symptom="poor-cache-reuse",
            text=f"L2 answers {hit:.0%} of the requests though bytes are read again: order blocks so that what is live "
            f"fits its {l2.bytes / 1e6:.0f} MB.",
            gain=gain * 0.8,
            evidence=COUNTED,
        )


def _memory(program: ProgramFacts) -> Iterator[Finding]:
    share = program.get("ncu_dram_share")
    if share is not None and share >= NEAR:
        yield Finding(
            symptom="memory-bound",
            text=f"Memory is busy at {share:.0%} of its peak: only fewer bytes make it faster.",
            gain=max(0.02, 1 - program.memory_floor / program.seconds),
            evidence=COUNTED,
        )


def _coalescing(program: ProgramFacts) -> Iterator[Finding]:
    lost = []
    for way, word in (("load", "loads"), ("store", "stores")):
        used, sectors = program.get(f"ncu_{way}_efficiency"), program.get(f"ncu_sectors_per_{way}")
        # Asynchronous copies are requests whose bytes this counter does not see: it says 0.
        if used is not None and 0 < used < 0.8 and (sectors or 0) > 0:
            lost.append(
                (
                    used,
                    f"{word} use {used:.0%} of the bytes they fetch ({sectors:.1f} sectors a request)",
                )
            )
    if lost:
        yield Finding(
            symptom="uncoalesced-access",
            text=f"Global {' and '.join(text for _, text in lost)}: let neighbouring lanes take neighbouring addresses.",
            gain=(1 - min(used for used, _ in lost)) * (program.get("ncu_l2_share") or 0.5),
            evidence=COUNTED,
        )


def _conflicts(program: ProgramFacts) -> Iterator[Finding]:
    share = program.get("ncu_bank_conflict_share")
    if share is not None and share > 0.1:
        yield Finding(
            symptom="bank-conflicts",
            text=f"{share:.0%} of the shared-memory wavefronts are repeats for bank conflicts: pad or swizzle the tile.",
            gain=share * max(0.2, program.get("ncu_l1_share") or 0.5),
            evidence=COUNTED,
        )


def _stalls(program: ProgramFacts) -> Iterator[Finding]:
    told = {name: program.get(f"ncu_stall_{name}") for name in _STALLS}
    stalls = {name: value for name, value in told.items() if value}
    total = program.get("ncu_stall_total") or sum(stalls.values())
    issue = program.get("ncu_issue_share")
    if not stalls or issue is None or issue > 0.6 or total <= 0:
        return
    name, value = max(stalls.items(), key=lambda pair: pair[1])
    share = value / total
    if share < 0.3:
        return
    symptom, words = _STALLS[name]
    near = max(program.get("ncu_dram_share") or 0.0, program.get("ncu_tensor_share") or 0.0)
    if symptom == "latency-bound" and near >= NEAR:
        return  # waiting for memory that is busy is no latency problem
    yield Finding(
        symptom=symptom,
        text=f"An instruction is issued in {issue:.0%} of the cycles; {share:.0%} of the waiting warps {words}.",
        gain=(1 - near) * share * 0.6,
        evidence=COUNTED,
    )


def _latency(program: ProgramFacts) -> Iterator[Finding]:
    dram, sm = program.get("ncu_dram_share"), program.get("ncu_sm_share")
    if dram is None or sm is None or max(dram, sm) >= 0.5:
        return
    yield Finding(
        symptom="latency-bound",
        text=f"Neither memory ({dram:.0%} of its peak) nor arithmetic ({sm:.0%}) is busy: more requests in flight, "
        "fewer dependent steps.",
        gain=0.5 * (1 - max(dram, sm)),
        evidence=COUNTED,
    )


def _lanes(program: ProgramFacts) -> Iterator[Finding]:
    lanes = program.get("ncu_active_lanes")
    if lanes is not None and lanes < 0.75 * _FULL_LANES:
        yield Finding(
            symptom="branch-divergence",
            text=f"{lanes:.0f} of 32 lanes are active on average: lanes of a warp take different branches.",
            gain=1 - lanes / _FULL_LANES,
            evidence=COUNTED,
        )


def _special(program: ProgramFacts) -> Iterator[Finding]:
    share = program.get("ncu_special_share")
    if share is not None and share > 0.6:
        yield Finding(
            symptom="slow-transcendentals",
            text=f"The special-function pipe is busy at {share:.0%}: fewer exponentials and divisions, or a polynomial.",
            gain=0.3 * share,
            evidence=COUNTED,
        )


def _balance(program: ProgramFacts) -> Iterator[Finding]:
    balance, waves = program.get("ncu_balance"), program.get("ncu_waves")
    # With less than a wave some SMs have no block at all, which is another matter.
    if balance is not None and balance < 0.7 and (waves is None or waves >= 1):
        yield Finding(
            symptom="load-imbalance",
            text=f"The least busy SM works {balance:.0%} of the time of the busiest.",
            gain=0.5 * (1 - balance),
            evidence=COUNTED,
        )


def _pipes(program: ProgramFacts) -> Iterator[Finding]:
    pipes = {
        "tensor": program.get("ncu_tensor_share") or 0.0,
        "FMA": program.get("ncu_fma_share") or 0.0,
        "integer": program.get("ncu_alu_share") or 0.0,
    }
    name, share = max(pipes.items(), key=lambda pair: pair[1])
    if share >= NEAR:
        yield Finding(
            symptom="compute-bound",
            text=f"The {name} pipe is busy at {share:.0%}: only fewer or cheaper operations make it faster.",
            gain=max(0.02, 1 - program.compute_floor / program.seconds),
            evidence=COUNTED,
        )


def _atomics(program: ProgramFacts) -> Iterator[Finding]:
    requests, share = program.get("ncu_atomic_share"), program.get("ncu_dram_share")
    if requests is not None and requests > 0.2 and (share or 0.0) < NEAR:
        yield Finding(
            symptom="atomic-contention",
            text=f"{requests:.0%} of the sectors that reach L2 are atomic: sum in registers and shared memory first.",
            gain=min(0.95, 2 * requests) * (1 - (share or 0.0)),
            evidence=COUNTED,
        )


COUNTER_RULES: tuple[Rule, ...] = (
    _passes, _memory, _coalescing, _conflicts, _stalls, _latency, _lanes, _special, _balance,
    _pipes, _atomics,
)  # fmt: skip
