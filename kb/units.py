"""Times, ratios and counts as people read them."""

from __future__ import annotations

from collections.abc import Mapping


def long_text(seconds: float) -> str:
    """Return a stretch of time as people plan with it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"


def time_text(seconds: float) -> str:
    """Return seconds in the unit that people would use."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def ratio_text(ratio: Mapping[str, float]) -> str:
    """Return a speed-up with its interval."""
    return f"{ratio['ratio']:.2f}x ({ratio['low']:.2f} to {ratio['high']:.2f})"


def compact(value: float) -> str:
    """Return a number as an axis has it: 1.5k, 20M."""
    for unit, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= scale:
            return f"{value / scale:.3g}{unit}"
    return f"{value:.3g}"
