"""The measurements that a lesson lists: which replace which, and how many are kept."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kb.records.schema import Evidence, LessonRecord
from kb.retrieval.lesson_confidence import effect_of, stance

KEPT = 20  # measurements that are listed; older ones are counted
BY_HAND = "named by a person"


def rests_on(evidence: Evidence, nodes: Collection[tuple[str, int]]) -> bool:
    """Say whether a measurement is a gain of one of the nodes, or one over it."""
    return evidence.after is not None and any(
        (evidence.run, number) in nodes for number in (evidence.node, evidence.parent)
    )


def joined(known: Sequence[Evidence], new: Evidence) -> list[Evidence]:
    """Return the measurements with the new one last.

    What a run says of a lesson replaces what it said before; what a person names stands beside it.
    """
    return [*(one for one in known if not _replaces(new, one)), new]


def _replaces(new: Evidence, old: Evidence) -> bool:
    if old.run is None or old.run != new.run:
        return False
    if BY_HAND in (old.note, new.note):
        return old.node == new.node
    return True


def same_measurement(one: Evidence, other: Evidence) -> bool:
    """Say whether both are what one run found at one node."""
    return (one.run, one.node, one.outcome) == (other.run, other.node, other.outcome)


def bounded(record: LessonRecord, listed: Sequence[Evidence]) -> LessonRecord:
    """Return the record with its newest measurements listed and the others counted."""
    dropped, kept = listed[:-KEPT], listed[-KEPT:]
    sides = [stance(effect_of(record), one) for one in dropped]
    earlier = record.earlier.model_copy(
        update={
            "confirmed": record.earlier.confirmed + sum(side > 0 for side in sides),
            "contradicted": record.earlier.contradicted + sum(side < 0 for side in sides),
        }
    )
    return record.model_copy(update={"evidence": tuple(kept), "earlier": earlier})
