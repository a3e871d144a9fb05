"""Which lessons of earlier runs may be told: those from nearby work, few, and not beside their idea."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kb.records.schema import Document, LessonRecord
from kb.retrieval.multi_query import Inquiry
from kb.retrieval.multi_query.merge import MergedDocument

NEAR = 0.5  # of the families of two tasks, what both must have


def is_near(lesson: LessonRecord, inquiry: Inquiry) -> bool:
    """Say whether a lesson is about work like that of an inquiry.

    The operator families must agree by half, and where both name bottlenecks, one of them.
    """
    theirs, mine = set(lesson.scope.operator), set(inquiry.operators or inquiry.families)
    if theirs and mine and len(theirs & mine) < NEAR * len(theirs | mine):
        return False
    before = set(lesson.claim.before) if lesson.claim is not None else set()
    return not before or not inquiry.symptoms or bool(before & set(inquiry.symptoms))


def select_lessons(
    found: Sequence[MergedDocument], lessons: Mapping[str, Document], inquiry: Inquiry, places: int
) -> tuple[list[MergedDocument], dict[str, list[Document]]]:
    """Return what stays of a ranking, and the near lessons that are told on their idea's page.

    Args:
        lessons: those that were found at all, by document.
        places: that lessons may take at most.
    """
    ideas = {one.name: one.document for one in found if one.kind == "idea"}
    near = {
        name: record
        for name, document in lessons.items()
        if isinstance(record := document.record, LessonRecord) and is_near(record, inquiry)
    }
    beside: dict[str, list[Document]] = {}
    for name, record in near.items():
        page = ideas.get(f"ideas/{record.idea}")
        if page is not None:
            beside.setdefault(page, []).append(lessons[name])
    told = {document.path for documents in beside.values() for document in documents}
    places_left = iter(range(places))
    kept = [
        one
        for one in found
        if one.kind != "lesson"
        or (
            one.document in near
            and one.document not in told
            and next(places_left, None) is not None
        )
    ]
    return kept, beside


def measured_line(lesson: Document) -> str:
    """Return what a lesson measured as one line of its idea's page."""
    record = lesson.record
    assert isinstance(record, LessonRecord)
    last = record.evidence[-1]
    return f"Measured here: {record.title}; {last.told} on {last.task}, {last.target}."
