"""Lessons as rows and pages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import exp
from typing import TYPE_CHECKING, Any

from kb.errors import ConfigError
from kb.records.schema import EFFECTS
from kb.retrieval.lesson_confidence import effect_of, stance, standing

if TYPE_CHECKING:
    from search.lessons.evidence import Proof
    from search.lessons.store import LessonStore, StoredLesson


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Which lessons to list; None and False leave a filter out."""

    target: str | None
    family: str | None
    effect: str | None
    run: str | None
    retired: bool

    def admits(self, entry: StoredLesson) -> bool:
        """Say whether `entry` is asked for."""
        record = entry.record
        targets = {one.target for one in record.evidence}
        return (
            (self.retired or not entry.retired)
            and (self.target is None or self.target in targets)
            and (self.family is None or self.family in record.scope.operator)
            and (self.effect is None or self.effect == effect_of(record))
            and (self.run is None or self.run in {one.run for one in record.evidence})
        )


def rows(book: LessonStore, wanted: Wanted, say: Callable[[str], None]) -> list[dict[str, Any]]:
    """Return one object a lesson, the most trusted of the greatest effect first, retired ones last.

    Raises:
        ConfigError: a filter names what does not exist.
    """
    if wanted.effect is not None and wanted.effect not in EFFECTS:
        raise ConfigError(
            f"--effect: expected one of {', '.join(EFFECTS)}, found {wanted.effect!r}"
        )
    entries = book.entries()
    for problem in book.problems:
        say(problem)
    found = [row_of(entry, book.proof) for entry in entries if wanted.admits(entry)]
    return sorted(found, key=lambda row: (row["status"] != "active", -row["worth"], row["name"]))


def row_of(entry: StoredLesson, proof: Proof) -> dict[str, Any]:
    """Return a lesson in short.

    Args:
        proof: says why a measurement counts nothing.
    """
    from kb.app.lessons.learning import today

    record = entry.record
    now = standing(record, today())
    proven = any(proof(one) is None for one in record.evidence)
    claim = record.claim
    families = ", ".join(record.scope.operator)
    targets = dict.fromkeys(one.target for one in record.evidence)
    where = (families, claim.regime if claim else "", ", ".join(targets))
    return {
        "number": record.number,
        "name": entry.name,
        "title": record.title,
        "effect": effect_of(record),
        "status": "retired" if entry.retired else "active" if proven else "unproven",
        "where": "; ".join(part for part in where if part),
        "idea": record.idea,
        "gain": round(exp(now.gain), 4),
        "worth": round(abs(now.expected), 4),
        "trust": round(now.trust, 4),
        "confirmed": now.confirmed,
        "contradicted": now.contradicted,
        "latest": now.latest.isoformat() if now.latest else None,
    }


def values_of(entry: StoredLesson, proof: Proof) -> dict[str, Any]:
    """Return everything about a lesson."""
    effect = effect_of(entry.record)
    listed = [
        {**one.model_dump(mode="json"), "stance": stance(effect, one), "fault": proof(one)}
        for one in entry.record.evidence
    ]
    record = entry.record.model_dump(mode="json", exclude={"evidence"}, exclude_none=True)
    return {**row_of(entry, proof), "record": record, "evidence": listed, "words": entry.words}


def text_of(entry: StoredLesson, proof: Proof) -> str:
    """Return a lesson as people read it."""
    from search.lessons.wording import evidence_line

    row = row_of(entry, proof)
    retired = entry.record.retired
    lines = [
        f"lesson {row['number'] or '-'} ({entry.name}): {row['effect']}, {row['status']}",
        f"  for {row['confirmed']}, against {row['contradicted']}, trust {row['trust']:.0%}, "
        f"shrunken gain {row['gain']:.2f}x, latest {row['latest'] or 'unknown'}",
    ]
    if retired is not None:
        lines.append(f"  retired {retired.at} by {retired.by}: {retired.because}")
    lines += ["", entry.words.rstrip(), "", "Evidence:"]
    for one in entry.record.evidence:
        side = stance(row["effect"], one)
        sign = "·" if not side else "+" if side > 0 else "-"
        why = proof(one)
        lines.append(f"  {sign} {evidence_line(one)}{f'  [counts nothing: {why}]' if why else ''}")
    older = entry.record.earlier
    if older.confirmed or older.contradicted:
        lines.append(f"  older: {older.confirmed} for, {older.contradicted} against")
    return "\n".join(lines)
