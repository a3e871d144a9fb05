"""Evidence is a run and a node that exist, and that measured what the evidence says."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sqlalchemy import Engine, select

from kb.database import reading
from kb.records.schema import Document, Evidence, LessonRecord
from search.gain import over
from search.outcome import Outcome, Passed, from_json
from search.runs.report import reported
from search.runs.tables import NODES, OUTCOMES, RUNS

Proof = Callable[[Evidence], str | None]
# Two measurements of one source, beyond their intervals: clocks drift, neighbours come and go.
AGREEMENT = 1.5


@dataclass(frozen=True, slots=True)
class Runs:
    """What the record of runs says of evidence.

    Attributes:
        known: outcomes that were read already, by run and node.
    """

    engine: Engine
    known: dict[tuple[str, int], Outcome | None] = field(default_factory=dict)

    def measured_again(self, run: str, confirmed: Mapping[int, Outcome]) -> Runs:
        """Return the same with the finalists of a run as they were measured again."""
        again = {(run, number): outcome for number, outcome in confirmed.items()}
        return Runs(self.engine, {**self.known, **again})

    def fault(self, evidence: Evidence) -> str | None:
        """Return why `evidence` proves nothing, in a few words; None where it holds."""
        if evidence.run is None or evidence.node is None:
            return "names no run and node"
        outcome = self.outcome(evidence.run, evidence.node)
        place = f"{evidence.run} node {evidence.node}"
        if outcome is None:
            return f"{place} is not in the record of runs, or was not judged"
        if not isinstance(outcome, Passed):
            # A finalist that failed when it was measured again passed before; not the other way.
            return None if evidence.after is None else f"{place} did not pass ({outcome.kind})"
        if evidence.parent is not None and self.outcome(evidence.run, evidence.parent) is None:
            return f"{evidence.run} node {evidence.parent} is not in the record of runs"
        return self._disagreement(evidence, outcome, place)

    def outcome(self, run: str, node: int) -> Outcome | None:
        """Return the outcome of a node, None where there is none."""
        if (run, node) not in self.known:
            query = (
                select(OUTCOMES.c.outcome)
                .join(NODES, NODES.c.outcome == OUTCOMES.c.key)
                .where((NODES.c.run == run) & (NODES.c.number == node))
            )
            with reading(self.engine) as session:
                text = session.scalar(query)
            self.known[run, node] = None if text is None else from_json(text)
        return self.known[run, node]

    def believes(self, document: Document) -> bool:
        """Say whether a record may be acted on: a lesson needs one measurement that is there."""
        record = document.record
        if not isinstance(record, LessonRecord):
            return True
        return record.retired is None and any(self.fault(one) is None for one in record.evidence)

    def _disagreement(self, evidence: Evidence, outcome: Passed, place: str) -> str | None:
        if evidence.gain is None or evidence.note.startswith("started from"):
            return None  # of several measurements together, against the run's winner
        mine = [outcome, *self._again(evidence)]
        base = None
        if evidence.parent is not None:
            found = self.outcome(evidence.run or "", evidence.parent)
            if not isinstance(found, Passed):
                return (
                    f"{evidence.run} node {evidence.parent} did not pass: nothing to compare with"
                )
            base = found
        for one in mine:
            gain = over(one, base)
            if gain.low / AGREEMENT <= evidence.gain <= gain.high * AGREEMENT:
                return None
        return f"says {evidence.gain:.2f}x, {place} measured {gain.low:.2f}x to {gain.high:.2f}x"

    def _again(self, evidence: Evidence) -> list[Passed]:
        """Return what the run reported of the node, which was measured again for that."""
        with reading(self.engine) as session:
            text = session.scalar(select(RUNS.c.report).where(RUNS.c.run == evidence.run))
        assert evidence.node is not None
        again = reported(json.loads(text) if text else {}).get(evidence.node)
        return [again] if isinstance(again, Passed) else []
