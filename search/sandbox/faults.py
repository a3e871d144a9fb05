"""What ends a candidate's judging: its faults, as outcomes."""

from __future__ import annotations

from typing import Any

from search.languages.compilers import compiler_fault
from search.outcome import BuildFailed, Crashed, Outcome, Refused, Wrong

# What torch's allocator says of a full device where the walls keep the driver's monitor away.
_FULL = "nvmlInit_v2_"
_NO_MEMORY = {"MemoryError", "OutOfMemoryError"}


class Fault(Exception):
    """What a candidate did that ends its judging."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.kind)
        self.outcome = outcome


def forged(detail: str) -> Fault:
    """Return the fault of a runner that reports what cannot be."""
    return Fault(
        Refused(
            reason="its process reported what cannot be: candidate code has tampered with it",
            trick="forged-report",
            detail=detail[:500],
        )
    )


def raised(told: dict[str, Any], where: str) -> Outcome:
    """Return the outcome of a candidate's exception."""
    kind, message = str(told.get("type")), str(told.get("message"))
    first = (message.strip().splitlines() or [""])[0][:300]
    reason = f"{where} raised {kind}: {first}"
    detail = f"{message}\n{told.get('trace') or ''}".strip()[:3000]
    if causes := compiler_fault(kind, message):
        return BuildFailed(
            reason=f"a kernel of it does not compile: {causes.splitlines()[0]}",
            detail=f"{causes}\n{detail}"[:3000],
        )
    if where.startswith("importing it") and kind != "MemoryError":
        return BuildFailed(reason=reason, detail=detail)
    if kind in _NO_MEMORY or "can't allocate memory" in message or _FULL in message:
        what = "the device had none left" if _FULL in message else first
        return Crashed(
            reason=f"{where} ran out of the memory that it may use: {what}", detail=detail
        )
    return Crashed(reason=reason, detail=detail)


def wrong(reason: str, detail: str = "") -> Fault:
    """Return the fault of a wrong answer."""
    return Fault(Wrong(reason=reason, detail=detail))
