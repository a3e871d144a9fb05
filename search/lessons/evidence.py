"""Evidence is a run and a node that exist, and that measured what the evidence says."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sqlalchemy import Engine, select

from kb.database import reading
from kb.records.schema import Document, Evidence, LessonRecord
from kb.retrieval.lesson_confidence import effect_of, stance
from search.outcome import STANDING, Outcome, Passed, from_json
from search.runs.report import reported
from search.runs.tables import NODES, OUTCOMES, RUNS
from search.runs.verdicts import second_outcome
from search.won_or_lost import over

Proof = Callable[[Evidence], str | None]
# Two measurements of one source, beyond their intervals: clocks drift, neighbours come and go.
AGREEMENT = 1.5


@dataclass(frozen=True, slots=True)
class Runs:
    """What the record of runs says of evidence.

    Attributes:
        known: outcomes that were read already, by run and node.
        fallen: whether a second judge refused a node, where that was looked up already.
        unseen: nodes of imported runs among these that nobody here has looked at.
        reports: what runs reported of their finalists, where that was read already.
    """

    engine: Engine
    known: dict[tuple[str, int], Outcome | None] = field(default_factory=dict)
    fallen: dict[tuple[str, int], bool] = field(default_factory=dict)
    unseen: set[tuple[str, int]] = field(default_factory=set)
    reports: dict[str, Mapping[int, Outcome]] = field(default_factory=dict)

    def measured_again(self, run: str, confirmed: Mapping[int, Outcome]) -> Runs:
        """Return the same with the finalists of a run as they were measured again."""
        again = {(run, number): outcome for number, outcome in confirmed.items()}
        fallen = {node: outcome.kind not in STANDING for node, outcome in again.items()}
        return Runs(self.engine, {**self.known, **again}, {**self.fallen, **fallen})

    def fault(self, evidence: Evidence) -> str | None:
        """Return why `evidence` proves nothing, in a few words; None where it holds."""
        if evidence.run is None or evidence.node is None:
            return "names no run and node"
        for node in (evidence.node, evidence.parent):
            fault = self._gone(evidence.run, node, timed=evidence.after is not None)
            if fault is not None:
                return fault
        outcome = self.outcome(evidence.run, evidence.node)
        place = f"{evidence.run} node {evidence.node}"
        if isinstance(outcome, Passed):
            return self._disagreement(evidence, outcome, place)
        # A finalist that failed when it was measured again passed before; not the other way.
        kind = "" if outcome is None else outcome.kind
        return None if evidence.after is None else f"{place} did not pass ({kind})"

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
        """Say whether a record may be acted on: a lesson needs one measurement for it that is there."""
        record = document.record
        if not isinstance(record, LessonRecord):
            return True
        effect = effect_of(record)
        support = (one for one in record.evidence if stance(effect, one) > 0)
        return record.retired is None and any(self.fault(one) is None for one in support)

    def _disagreement(self, evidence: Evidence, outcome: Passed, place: str) -> str | None:
        if evidence.gain is None or evidence.note.startswith("started from"):
            return None  # of several measurements together, against the run's winner
        again = self._reported(evidence.run or "").get(evidence.node or 0)
        mine = [outcome, *([again] if isinstance(again, Passed) else [])]
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

    def _gone(self, run: str, node: int | None, *, timed: bool) -> str | None:
        """Return why a node is evidence of nothing, None where it may be.

        Args:
            timed: a time of it is believed, not only that it failed.
        """
        if node is None:
            return None
        if self.outcome(run, node) is None:
            return f"{run} node {node} is not in the record of runs, or was not judged"
        if timed and self._fell(run, node):
            return f"{run} node {node} was refused when a second judge looked at it"
        if (run, node) in self.unseen:
            return f"{run} was imported: kb lessons learn {run} has its best judged here"
        return None

    def _fell(self, run: str, node: int) -> bool:
        """Say whether a second judge refused a node, in its own run or where another wrote the same."""
        if (run, node) not in self.fallen:
            mine = (NODES.c.run == run) & (NODES.c.number == node)
            query = select(NODES.c.outcome, RUNS.c.about).join(RUNS, RUNS.c.run == NODES.c.run)
            with reading(self.engine) as session:
                row = session.execute(query.where(mine)).one_or_none()
            said = (
                None if row is None or not row.outcome else second_outcome(self.engine, row.outcome)
            )
            if said is None and row is not None and "imported" in json.loads(row.about):
                self.unseen.add((run, node))
            said = said or self._reported(run).get(node)
            self.fallen[run, node] = said is not None and said.kind not in STANDING
        return self.fallen[run, node]

    def _reported(self, run: str) -> Mapping[int, Outcome]:
        """Return what a run reported of the nodes that were measured again for that."""
        if run not in self.reports:
            with reading(self.engine) as session:
                text = session.scalar(select(RUNS.c.report).where(RUNS.c.run == run))
            self.reports[run] = reported(json.loads(text) if text else {})
        return self.reports[run]
