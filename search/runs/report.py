"""What a run found, as plain values: the object that ``kb evolve --json`` prints."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from search.attempt import Attempt
from search.graph import Graph
from search.languages.written import written_in
from search.outcome import (
    OUTCOME_KINDS,
    STANDING,
    Checked,
    Outcome,
    Passed,
    Ratio,
    Refused,
)

# What a report keeps of the winner's outcome, beside its speed-ups.
FIGURES = ("seconds", "max_error", "allowed_error", "own_share", "profile")


def best_of(
    graph: Graph, confirmed: Mapping[int, Outcome]
) -> tuple[Attempt, Passed | Checked] | None:
    """Return the best attempt with the outcome to report.

    Finalists that were measured again are ranked by that measurement, which removes most of the
    luck that made them finalists. One that failed when measured again is out.
    """
    attempts = {attempt.number: attempt for attempt in graph.ranked()}
    if not confirmed:
        first = next(iter(attempts.values()), None)
        if first is None or not isinstance(first.outcome, Passed | Checked):
            return None
        return first, first.outcome
    standing = [
        (number, outcome)
        for number, outcome in confirmed.items()
        if isinstance(outcome, Passed | Checked)
    ]
    if not standing:
        return None
    number, outcome = max(standing, key=lambda pair: (pair[1].merit, -pair[0]))
    return attempts[number], outcome


def build_report(
    about: Mapping[str, Any],
    graph: Graph,
    confirmed: Mapping[int, Outcome],
    *,
    stop_reason: str | None,
    seconds: float,
) -> dict[str, Any]:
    """Return the report of a run.

    Args:
        about: run, task, target, language, author and baselines, as the run's record keeps them.
        confirmed: outcomes of the finalists, measured again; empty where the run was interrupted.
        seconds: wall time of the whole run, resumes included.
    """
    counts: Counter[str] = Counter(
        "refused" if _fell(confirmed.get(node.number)) else node.outcome.kind
        for node in graph.nodes
        if node.outcome is not None
    )
    best = best_of(graph, confirmed)
    return {
        **about,
        "best": None if best is None else _best(*best, confirmed=bool(confirmed)),
        **({"withdrawn": gone} if (gone := _withdrawn(confirmed)) else {}),
        "candidates": graph.judged,
        "outcomes": {kind: counts[kind] for kind in OUTCOME_KINDS if counts[kind]},
        "stop_reason": stop_reason,
        "seconds": round(seconds, 3),
        "timed": not any(attempt.outcome.kind == "checked" for attempt in graph.attempts()),
    }


def nothing_passed(report: Mapping[str, Any]) -> str:
    """Say why a run has no best candidate, or none so far."""
    run, judged, ended = report["run"], report["candidates"], report["stop_reason"]
    on = "" if report["author"] == "mcp" else f"`kb resume {run}` goes on"
    why = f"`kb tree {run}` shows why"
    if ended == "interrupted" and not judged:
        return "it was interrupted before a candidate was judged" + (on and f": {on}")
    if ended == "interrupted":
        return f"no candidate passed before it was interrupted: {why}" + (on and f", {on}")
    if ended == "running":
        return f"no candidate has passed yet: {why}" if judged else "no candidate was judged yet"
    return f"no candidate passed: {why}" if judged else "no candidate was judged"


def _withdrawn(confirmed: Mapping[int, Outcome]) -> list[dict[str, Any]]:
    """Return what passed first and not when it was measured again, with the reason."""
    return [
        {"node": number, "outcome": outcome.kind, "reason": getattr(outcome, "reason", "")}
        for number, outcome in confirmed.items()
        if _fell(outcome)
    ]


def _fell(outcome: Outcome | None) -> bool:
    """Say whether a second look has refused a candidate."""
    return outcome is not None and outcome.kind not in STANDING


def _best(attempt: Attempt, outcome: Passed | Checked, *, confirmed: bool) -> dict[str, Any]:
    if isinstance(outcome, Checked):
        return _checked(attempt, outcome)
    return {
        "node": attempt.number,
        "seconds": outcome.seconds,
        "source": attempt.draft.source,
        "languages": written_in(attempt.draft.source),
        "speedup": _ratios(outcome.speedup),
        **({"baselines": taken} if (taken := _baselines(outcome)) else {}),
        **({"workloads": _workloads(outcome)} if outcome.workloads else {}),
        **({"degenerate": True} if outcome.degenerate else {}),
        "confirmed": confirmed,
        "idea": attempt.idea.title,
        "own_share": outcome.own_share,
        "max_error": outcome.max_error,
        "allowed_error": outcome.allowed_error,
        "profile": dict(outcome.profile),
        "kernels": [asdict(kernel) for kernel in outcome.kernels],
        **({"losses": list(outcome.losses)} if outcome.losses else {}),
    }


def _baselines(outcome: Passed) -> dict[str, float]:
    """Return what the baselines took in the session that the speed-ups come from, in seconds.

    Of a baseline's calls it is the one that stands where the candidate's time stands among its own: that is
    one of the lowest of each block, and what disturbed single calls does not count.
    """
    own = sorted(outcome.calls.get("candidate", ()))
    if not own:
        return {}
    share = max(bisect_right(own, outcome.seconds) - 1, 0) / max(len(own) - 1, 1)
    calls = {name: sorted(outcome.calls.get(name, ())) for name in outcome.speedup}
    return {name: taken[round(share * (len(taken) - 1))] for name, taken in calls.items() if taken}


def baseline_seconds(report: Mapping[str, Any]) -> dict[str, float | None]:
    """Return what the baselines took: beside the best where there is one, else when the judge was prepared."""
    best = report.get("best") or {}
    return {**report.get("baselines", {}), **best.get("baselines", {})}


def _ratios(speedup: Mapping[str, Ratio]) -> dict[str, dict[str, float]]:
    return {
        name: {key: round(value, 4) for key, value in asdict(ratio).items() if key != "confidence"}
        for name, ratio in speedup.items()
    }


def _workloads(outcome: Passed) -> dict[str, Any]:
    return {name: _ratios(speedup) for name, speedup in outcome.workloads.items()}


def _checked(attempt: Attempt, outcome: Checked) -> dict[str, Any]:
    return {
        "node": attempt.number,
        "source": attempt.draft.source,
        "languages": written_in(attempt.draft.source),
        "timed": False,
        "merit": outcome.merit,
        "idea": attempt.idea.title,
        "kernels": [asdict(kernel) for kernel in outcome.kernels],
        "max_error": outcome.max_error,
        "allowed_error": outcome.allowed_error,
        "unchecked": outcome.unchecked,
        "notes": list(outcome.notes),
    }


def reported(report: Mapping[str, Any]) -> dict[int, Outcome]:
    """Return, by node, what a second judge said according to a report: of the winner, and of what it refused."""
    gone: dict[int, Outcome] = {
        one["node"]: Refused(reason=one["reason"], trick="second-look")
        for one in report.get("withdrawn", ())
    }
    best = report.get("best")
    if best is None or not best.get("confirmed") or "speedup" not in best:
        return gone
    speedup = {name: Ratio(**ratio) for name, ratio in best["speedup"].items()}
    winner = Passed(samples=0, speedup=speedup, **{name: best[name] for name in FIGURES})
    return {**gone, best["node"]: winner}


def idea_path(graph: Graph, number: int) -> list[dict[str, Any]]:
    """Return the ideas that led to a node, the first one first."""
    return [
        {
            "node": node.number,
            "idea": node.idea.title,
            "record": node.idea.record,
            "category": node.idea.category,
            "outcome": node.outcome.kind if node.outcome else "pending",
            "speedup": node.attempt().speedup if node.outcome else None,
        }
        for node in graph.path(number)
    ]
