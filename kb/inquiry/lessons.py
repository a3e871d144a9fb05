"""Which lessons of earlier runs may be told: those from nearby work, few, and not beside their idea."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kb.inquiry import Inquiry
from kb.inquiry.merge import Found
from kb.records import Document, LessonRecord

NEAR = 0.5  # of the families of two tasks, what both must have


def is_near(lesson: LessonRecord, inquiry: Inquiry) -> bool:
    """Say whether a lesson is about work like that of an inquiry.

    The operator families must agree by half, and where both name bottlenecks, one of them.
    """
    theirs, mine = set(lesson.scope.operator), set(inquiry.families)
    if theirs and mine and len(theirs & mine) < NEAR * len(theirs | mine):
        return False
    before = set(lesson.claim.before) if lesson.claim is not None else set()
    return not before or not inquiry.symptoms or bool(before & set(inquiry.symptoms))


def select_lessons(
    found: Sequence[Found], lessons: Mapping[str, Document], inquiry: Inquiry, places: int
) -> tuple[list[Found], dict[str, list[Document]]]:
    """Return what stays of a ranking, and the lessons that are told on their idea's page.

    Args:
        lessons: records by document.
        places: that lessons may take at most.
    """
    ideas = {one.name: one.document for one in found if one.kind == "idea"}
    kept: list[Found] = []
    beside: dict[str, list[Document]] = {}
    taken = 0
    for one in found:
        document = lessons.get(one.document)
        if document is None:
            kept.append(one)
            continue
        record = document.record
        if not isinstance(record, LessonRecord) or not is_near(record, inquiry):
            continue
        page = ideas.get(f"ideas/{record.idea}") if record.idea else None
        if page is not None:
            beside.setdefault(page, []).append(document)
        elif taken < places:
            kept.append(one)
            taken += 1
    return kept, beside


def measured_line(lesson: Document) -> str:
    """Return what a lesson measured as one line of its idea's page."""
    record = lesson.record
    assert isinstance(record, LessonRecord)
    last = record.evidence[-1]
    gain = f"{last.gain:.2f}x" if last.gain is not None else "failed"
    interval = f" ({last.low:.2f} to {last.high:.2f})" if last.low and last.high else ""
    return f"Measured here: {record.title}; {gain}{interval} on {last.task}, {last.target}."
