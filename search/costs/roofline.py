"""The least time that a target could need for a task (Williams, Waterman, Patterson 2009)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kb.errors import RecordError
from search.costs.graph import Work

if TYPE_CHECKING:
    from kb.records.schema import TargetRecord
    from search.judged import JudgedTarget

# Winograd's F(4x4, 3x3) does a convolution with a quarter of the multiplications (Lavin, Gray 2016).
FAST_CONVOLUTION = 4.0
# Products of a shorter type that make one of float32's accuracy: of two parts each, high by high, high by low and low by
# high; bfloat16 keeps eight bits and takes three parts, and six products of them.
_SPLIT = {"float16": 3.0, "tf32": 3.0, "bfloat16": 6.0}
# Products of two-byte numbers in AMX's tiles over float32's in AVX-512: a record need not say that a processor has them.
_TILES = 16.0
# Of the bytes of weights, what a constructor may leave where answers need not be as exact as float32's.
_PACKED = {"strict": 1.0, "tolerances": 0.0}
_PACKED_ELSE = 0.5


def roofline(
    work: Work,
    target: TargetRecord | JudgedTarget,
    threads: int = 1,
    precision: str = "strict",
    *,
    packed: bool = True,
) -> tuple[float, dict[str, float]]:
    """Return a bound that no honest candidate beats, and the terms that it is the greatest of.

    Args:
        threads: cores (or units) that a candidate may use.
        precision: the task's policy. Where the device has tensor cores or tiles, a strict product may be made
            of several of a shorter type; any other policy, and a reference of two-byte numbers, may admit a
            single one. Any other policy may also admit weights of half precision, and explicit
            ``tolerances`` weights of a few bits.
        packed: whether a constructor may keep weights in another form.

    Returns:
        Seconds, from what nobody can spare (`search.costs.lower_bound`), and by name: ``memory`` (every
        input, parameter and output moved once at the device's bandwidth), ``arithmetic`` (all of the
        reference's operations at the peak rate).

    Raises:
        RecordError: the record has no float32 rate.
    """
    peak = _rate(work, target, threads, precision)
    flops = work.flops / (FAST_CONVOLUTION if "convolution" in work.families else 1.0)
    terms = {"memory": work.bytes / target.bandwidth, "arithmetic": flops / peak}
    kept = _PACKED.get(precision, _PACKED_ELSE) if packed else 1.0
    moved = work.sure_bytes - (1.0 - kept) * work.sure_weights
    return max(moved / target.bandwidth, work.sure_flops / peak), terms


def _rate(work: Work, target: TargetRecord | JudgedTarget, threads: int, precision: str) -> float:
    """Return the operations a second that nobody beats.

    Raises:
        RecordError: the record has no float32 rate.
    """
    per_cycle = target.flops_per_cycle.get("float32")
    whole = target.peak.get("float32")
    if whole is None and (per_cycle is None or target.clock is None):
        raise RecordError(
            f"target {target.name}: expected a float32 rate in 'flops_per_cycle' or 'peak', found none: add one"
        )
    if per_cycle is not None and target.clock is not None:
        peak = per_cycle * target.clock * min(threads, target.units)
    else:
        assert whole is not None
        peak = whole * min(threads, target.units) / target.units
    share = min(threads, target.units) / target.units
    short = {name: share * target.peak.get(name, 0.0) for name in _SPLIT}
    if work.short or precision != "strict":
        untold = work.short and target.device == "cpu" and not any(short.values())
        return max(peak * (_TILES if untold else 1.0), *short.values())
    return max(peak, *(rate / _SPLIT[name] for name, rate in short.items()))


def features(
    work: Work, seconds: float, floor: float, terms: Mapping[str, float]
) -> dict[str, float]:
    """Return what an outcome keeps of a bound.

    Args:
        seconds: of one call.
        floor, terms: as `roofline` returns them.
    """
    return {
        "flops": work.flops,
        "bytes": work.bytes,
        "gflops": work.flops / seconds / 1e9,
        "bandwidth": work.bytes / seconds,
        "roofline": floor / seconds,
        "floor_seconds": floor,
        **{f"floor_{name}": value for name, value in terms.items()},
    }
