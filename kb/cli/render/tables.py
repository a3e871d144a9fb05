"""Where a call's time goes on a device, as people read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kb.units import time_text

_MOST = 6
_LONGEST = 44  # letters of a name: libraries' run to hundreds


def kernel_lines(kernels: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return one line a kernel, the longest first, with its share of the device's time.

    Args:
        kernels: as `search.outcome.KernelTime` has them.
    """
    total = sum(kernel["seconds"] for kernel in kernels)
    if total <= 0:
        return []
    lines = [_line(kernel, total) for kernel in kernels[:_MOST]]
    rest = kernels[_MOST:]
    if rest:
        share = sum(kernel["seconds"] for kernel in rest) / total
        lines.append(f"{share:>4.0%}  {len(rest)} more")
    return lines


def _line(kernel: Mapping[str, Any], total: float) -> str:
    name = kernel["name"]
    short = name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"
    parts = [f"{kernel['count']:g} x {time_text(kernel['seconds'] / max(kernel['count'], 1e-9))}"]
    if kernel["grid"]:
        parts.append(f"grid {kernel['grid']} of {kernel['block']}")
    if kernel["registers"]:
        parts.append(f"{kernel['registers']} registers")
    if kernel["shared"]:
        parts.append(f"{kernel['shared'] / 1024:.0f} KiB shared")
    if kernel["occupancy"] is not None:
        parts.append(f"occupancy {kernel['occupancy']:.0%}")
    whose = "own" if kernel["own"] else "not own"
    return f"{kernel['seconds'] / total:>4.0%}  {short} ({whose}): {', '.join(parts)}"
