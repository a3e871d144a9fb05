"""Stop rules: when a run has done enough."""

from __future__ import annotations

from collections.abc import Sequence

from search.attempt import Attempt
from search.graph import Graph
from search.task import StopSettings

SEARCHING = 0.85  # of the minutes; in the rest the finalists are measured again


def stop_reason(settings: StopSettings, graph: Graph, *, elapsed_seconds: float) -> str | None:
    """Return why the search should end now, or None to go on."""
    if settings.candidates is not None and graph.judged >= settings.candidates:
        return f"{settings.candidates} candidates judged"
    if settings.minutes is not None and elapsed_seconds >= settings.minutes * 60 * SEARCHING:
        return f"{settings.minutes:g} minutes, the end of them for measuring the best again"
    if settings.speedup is not None and graph.best_speedup >= settings.speedup:
        return f"a speed-up of {settings.speedup:g} over eager reached"
    if settings.roofline is not None and graph.best_roofline >= settings.roofline:
        return f"{settings.roofline:.0%} of the roofline reached"
    return None


def stalled(settings: StopSettings, attempts: Sequence[Attempt], round: int) -> str | None:
    """Return why the search should end after `round`, or None to go on.

    A round stalls when it gains less than one per cent on the best of the rounds before it.
    """
    if settings.stalled_rounds is None or round < settings.stalled_rounds:
        return None
    since = round - settings.stalled_rounds + 1
    before = max((a.merit for a in attempts if a.round < since), default=0.0)
    after = max((a.merit for a in attempts if a.round >= since), default=0.0)
    if before > 0 and after < before * 1.01:
        return f"no gain in {settings.stalled_rounds} rounds"
    return None
