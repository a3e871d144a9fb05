"""The figures of a device in words, from its record: no number stands in a template."""

from __future__ import annotations

from kb.records.schema import TargetRecord

_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def quantity(value: float, unit: str) -> str:
    """Return `value` with three digits and a decimal prefix: ``5.3 TB/s``."""
    for size, prefix in _PREFIXES:
        if abs(value) >= size:
            return f"{value / size:.4g} {prefix}{unit}"
    return f"{value:.4g} {unit}"


def memory_size(size: int) -> str:
    """Return a size of memory with a binary prefix: ``48 KiB``."""
    for power, prefix in ((30, "Gi"), (20, "Mi"), (10, "Ki")):
        if size >= 1 << power:
            return f"{size / (1 << power):.4g} {prefix}B"
    return f"{size} B"


def duration(seconds: float) -> str:
    """Return a duration with three digits in a unit that suits it."""
    for size, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def target_lines(target: TargetRecord) -> tuple[str, ...]:
    """Return the figures of `target`, one line each, the most useful first.

    Of a processor one core is timed, so its peak is that of one, and how its arithmetic stands to the
    bandwidth of all cores together tells nothing.
    """
    gpu = target.device == "gpu"
    peaks = target.peak if gpu else {name: of / target.units for name, of in target.peak.items()}
    lines = [
        f"{target.units} {'compute unit' if gpu else 'core'}{'s' if target.units > 1 else ''}"
        + (f" at {quantity(target.clock, 'Hz')}, " if target.clock else ", ")
        + f"{target.simd_width} {'lanes a warp' if gpu else 'bits a vector register'}"
        + ("" if gpu else "; one core is timed"),
        f"Peak of {'the whole device' if gpu else 'one core'}: "
        + ", ".join(f"{dtype} {quantity(rate, 'FLOP/s')}" for dtype, rate in peaks.items()),
        f"Memory bandwidth{'' if gpu else ' of all cores together'}: {quantity(target.bandwidth, 'B/s')}"
        + (f", {memory_size(target.memory)} of memory" if target.memory else ""),
    ]
    if target.flops_per_cycle:
        rates = (f"{dtype} {rate:g}" for dtype, rate in target.flops_per_cycle.items())
        lines.append(f"Each unit, a clock: {', '.join(rates)} FLOP")
    if target.caches:
        levels = (
            f"{name} {memory_size(cache.bytes)} (shared by {cache.shared_by})"
            for name, cache in target.caches.items()
        )
        lines.append(f"Caches: {', '.join(levels)}")
    rate = target.peak.get("float32") or max(target.peak.values(), default=0.0)
    if rate and gpu:
        lines.append(
            f"Balance: {rate / target.bandwidth:.3g} FLOP a byte; below that a kernel is bound by "
            "memory"
        )
    if target.limits:
        limits = (f"{name.replace('_', ' ')} {value}" for name, value in target.limits.items())
        lines.append(f"Limits: {', '.join(limits)}")
    return tuple(lines)
