"""Evidence for a lesson, from a node that a person names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kb.config import Home
from kb.errors import ConfigError

if TYPE_CHECKING:
    from kb.records.schema import Evidence
    from search.lessons.store import StoredLesson


def evidence_of(home: Home, run: str, node: int, entry: StoredLesson) -> Evidence:
    """Return the measurement of a node, against what the lesson's claim is measured against.

    Raises:
        ConfigError: the node does not exist or was not judged.
        StoreError: there is no such run.
    """
    from dataclasses import replace
    from datetime import UTC, datetime

    from kb.app.history import open_run
    from search.lessons.distill import evidence_of as make_evidence
    from search.lessons.measurements import BY_HAND
    from search.lessons.setting import EvidenceRun
    from search.runs.report import reported
    from search.won_or_lost import gains, over

    found = open_run(home, run)
    report = found.report()
    eager, again = report["baselines"].get("eager"), reported(report)
    by_node = {one.attempt.number: one for one in gains(found.graph.attempts(), again)}
    gain = by_node.get(node)
    if gain is None or gain.fate is None or not eager:
        raise ConfigError(
            f"expected a judged node of a finished run, found none for {run} node {node}: "
            f"kb tree {run} lists them"
        )
    claim = entry.record.claim
    if gain.outcome.kind == "passed" and (claim is None or claim.basis == "reference"):
        gain = replace(gain, start=None, base=None, ratio=over(gain.outcome, None))
    place = EvidenceRun(
        run=run,
        task=found.row.about["task"],
        target=found.row.about["target"],
        eager_seconds=eager,
        at=datetime.fromtimestamp(found.row.started, UTC).date(),
    )
    return make_evidence(gain, place, BY_HAND)
