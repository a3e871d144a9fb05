"""What runs taught: the list of lessons, and one with its evidence."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from math import exp
from typing import Any

from kb.records.schema import Evidence
from kb.retrieval.lesson_confidence import effect_of, stance, standing
from kb.web.notes import Annotation, on_lesson
from kb.web.sources import NotFound, Query, Sources
from kb.web.text import address
from kb.web.views.home import paged, values_of
from search.lessons.evidence import Runs
from search.lessons.store import LessonStore, StoredLesson

ROWS = 100  # of one page


@dataclass(frozen=True, slots=True, kw_only=True)
class LessonLine:
    """A lesson in short.

    Attributes:
        status: active, unproven (no measurement of it is on record) or retired.
        gain: to be expected of it, shrunken towards none.
        trust: the chance that the next measurement confirms it.
    """

    number: int | None
    name: str
    address: str
    title: str
    effect: str
    status: str
    targets: tuple[str, ...]
    families: tuple[str, ...]
    gain: float
    worth: float
    trust: float
    confirmed: int
    contradicted: int
    latest: date | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lessons:
    """The lessons that are asked for; `problems` names files that are none."""

    rows: tuple[LessonLine, ...]
    total: int
    matching: int
    page: int
    pages: int
    text: str
    effect: str
    status: str
    target: str
    effects: tuple[str, ...]
    targets: tuple[str, ...]
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceView:
    """Evidence of a lesson.

    Attributes:
        side: above 0 it confirms, below it contradicts.
        fault: why it counts nothing, None where it counts.
        run: address of its run, None where that is not on record.
    """

    told: Evidence
    side: float
    fault: str | None
    run: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LessonView:
    """A lesson with all that is known of it."""

    row: LessonLine
    words: str
    idea: str | None
    evidence: tuple[EvidenceView, ...]
    retired: str
    notes: tuple[Annotation, ...]
    claim: tuple[tuple[str, str], ...]


def lessons(sources: Sources, query: Query, rows: int | None = ROWS) -> Lessons:
    """Return the lessons that a query asks for, the most trusted of the greatest effect first."""
    book = open_book(sources)
    proof = Runs(sources.reader)
    every = [row_of(entry, proof) for entry in book.entries()]
    asked = {name: query.get(name, "") for name in ("q", "effect", "status", "target")}
    found = [
        row
        for row in every
        if all(word in f"{row.title} {row.name}".lower() for word in asked["q"].lower().split())
        and asked["effect"] in ("", row.effect)
        and asked["status"] in ("", row.status)
        and (not asked["target"] or asked["target"] in row.targets)
    ]
    found.sort(key=lambda row: (row.status != "active", -row.worth, row.name))
    page, pages, shown = paged(found, query, rows)
    return Lessons(
        rows=tuple(shown),
        total=len(every),
        matching=len(found),
        page=page,
        pages=pages,
        text=asked["q"],
        effect=asked["effect"],
        status=asked["status"],
        target=asked["target"],
        effects=values_of(row.effect for row in every),
        targets=values_of(target for row in every for target in row.targets),
        problems=tuple(book.problems),
    )


def lesson(sources: Sources, address_of: str) -> LessonView:
    """Return a lesson by its address.

    Raises:
        NotFound: there is none.
    """
    entry = find(sources, address_of)
    proof = Runs(sources.reader)
    effect = effect_of(entry.record)
    known = {brief.run for brief in sources.stories.briefs()}
    retired = entry.record.retired
    claim = entry.record.claim
    told: list[tuple[str, Any]] = [] if claim is None else [
        ("subject", claim.subject), ("change", "; ".join(claim.change)), ("measured against", claim.basis),
        ("target", claim.target), ("shapes", claim.regime), ("segment", claim.pattern),
        ("bottleneck before", ", ".join(claim.before)), ("after", ", ".join(claim.after)),
    ]  # fmt: skip
    return LessonView(
        row=row_of(entry, proof),
        words=entry.words,
        idea=address(entry.record.idea) if entry.record.idea else None,
        evidence=tuple(
            EvidenceView(
                told=one,
                side=stance(effect, one),
                fault=proof.fault(one),
                run=address(one.run) if one.run in known else None,
            )
            for one in entry.record.evidence
        ),
        retired="" if retired is None else f"{retired.at} by {retired.by}: {retired.because}",
        notes=on_lesson(sources.reader, entry.name),
        claim=tuple((name, value) for name, value in told if value),
    )


def find(sources: Sources, address_of: str) -> StoredLesson:
    """Return the lesson of an address.

    Raises:
        NotFound: there is none.
    """
    entries = open_book(sources).entries()
    found = next((one for one in entries if address(one.name) == address_of), None)
    if found is None:
        raise NotFound(f"no lesson {address_of[:80]!r}: the list of lessons has all")
    return found


def open_book(sources: Sources) -> LessonStore:
    """Return the lessons of the home; nothing is compared by meaning here."""
    return LessonStore(sources.home.root, Runs(sources.reader).fault)


def row_of(entry: StoredLesson, proof: Runs) -> LessonLine:
    """Return a lesson in short."""
    record = entry.record
    now = standing(record, datetime.now(UTC).date())
    status = "retired"
    if not entry.retired:
        proven = any(proof.fault(one) is None for one in record.evidence)
        status = "active" if proven else "unproven"
    return LessonLine(
        number=record.number,
        name=entry.name,
        address=address(entry.name),
        title=record.title,
        effect=effect_of(record),
        status=status,
        targets=tuple(dict.fromkeys(one.target for one in record.evidence)),
        families=tuple(record.scope.operator),
        gain=exp(now.gain),
        worth=abs(now.expected),
        trust=now.trust,
        confirmed=now.confirmed,
        contradicted=now.contradicted,
        latest=now.latest,
    )
