"""Stop rules: when a run has done enough."""

from __future__ import annotations

from search.graph import Graph
from search.settings import StopSettings
from search.standings import Standings

SEARCHING = 0.85  # of the minutes; in the rest the finalists are measured again


def stop_reason(settings: StopSettings, graph: Graph, *, elapsed_seconds: float) -> str | None:
    """Return why the search should end now, or None to go on.

    The minutes end no search in which nothing was tried: a large reference may take all of them to prepare.
    """
    if settings.candidates is not None and graph.judged >= settings.candidates:
        return f"{settings.candidates} candidates judged"
    minutes = settings.minutes
    if minutes is not None and elapsed_seconds >= minutes * 60 * SEARCHING and _has_tried(graph):
        return f"{round(minutes, 2):g} minutes, the end of them for measuring the best again"
    if settings.speedup is not None and graph.best_speedup >= settings.speedup:
        return f"a speed-up of {settings.speedup:g} over eager reached"
    if settings.roofline is not None and graph.best_roofline >= settings.roofline:
        return f"{settings.roofline:.0%} of the roofline reached"
    return None


def _has_tried(graph: Graph) -> bool:
    later = any(slot.round > 0 for slot in graph.proposals)
    return graph.judged > 0 or bool(graph.dead_ends) or later


def stalled(settings: StopSettings, standings: Standings, round: int) -> str | None:
    """Return why the search should end after `round`, or None to go on.

    A round stalls when it gains no more than one per cent on the best of the rounds before it.
    """
    rounds = settings.stalled_rounds
    if rounds is None or standings.rounds_without_gain(round + 1) < rounds:
        return None
    return f"no gain in {rounds} rounds"
