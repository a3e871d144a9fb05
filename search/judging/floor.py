"""The bound that no honest candidate beats, as judges apply it."""

from __future__ import annotations

from search.costs.graph import Work
from search.costs.roofline import features, roofline
from search.judged import JudgedTarget, JudgedTask
from search.outcome import Refused
from search.sandbox.faults import Fault

# Dense half-precision products make float32 accuracy at a third of their rate (split operands); a
# measured clock and a recorded one differ by turbo modes: half of the bound is beyond any of that.
_BEATEN = 0.5


def bounded(
    work: Work | None,
    seconds: float,
    target: JudgedTarget,
    task: JudgedTask,
    *,
    threads: int = 1,
    degenerate: bool,
) -> dict[str, float]:
    """Return what an outcome keeps of the bound: nothing where the reference's work is not known.

    Args:
        seconds: of one call.
        task: its precision and packing say what a candidate may spare.
        threads: see `search.costs.roofline.roofline`.
        degenerate: the reference's answer is always the same, and need not be computed.

    Raises:
        Fault: the candidate is faster than the target can be.
    """
    if work is None:
        return {}
    precision, packed = task.settings.precision, task.settings.packing != "forbidden"
    policy = precision if isinstance(precision, str) else "tolerances"
    floor, terms = roofline(work, target, threads, policy, packed=packed)
    if seconds < _BEATEN * floor and not degenerate:
        raise Fault(
            Refused(
                reason=f"{seconds:.3g} s is less than this task can take on {target.name} "
                f"({floor:.3g} s): the work is not done when the clock stops",
                trick="beats-the-roofline",
            )
        )
    return features(work, seconds, floor, terms)
