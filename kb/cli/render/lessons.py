"""Lessons as rows and pages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import exp
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kb.config import Home
from kb.errors import ConfigError
from kb.records.schema import EFFECTS, Evidence
from kb.retrieval.lesson_confidence import effect_of, stance, standing

if TYPE_CHECKING:
    from search.lessons.store import StoredLesson


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


def rows(home: Home, wanted: Wanted, say: Callable[[str], None]) -> list[dict[str, Any]]:
    """Return one object a lesson, the most trusted of the greatest effect first, retired ones last.

    Raises:
        ConfigError: a filter names what does not exist.
    """
    if wanted.effect is not None and wanted.effect not in EFFECTS:
        raise ConfigError(
            f"--effect: expected one of {', '.join(EFFECTS)}, found {wanted.effect!r}"
        )
    from kb.app.learning import open_book
    from kb.database import open_engine
    from search.runs.storage import Storage

    if not home.root.is_dir():
        return []
    book = open_book(home, Storage(open_engine(home)))
    entries = book.entries()
    for problem in book.problems:
        say(problem)
    found = [row_of(entry, home.root) for entry in entries if wanted.admits(entry)]
    return sorted(found, key=lambda row: (row["status"] != "active", -row["worth"], row["name"]))


def row_of(entry: StoredLesson, root: Path) -> dict[str, Any]:
    """Return a lesson in short."""
    from kb.app.learning import today

    record = entry.record
    now = standing(record, today())
    claim = record.claim
    families = ", ".join(record.scope.operator)
    targets = dict.fromkeys(one.target for one in record.evidence)
    where = (families, claim.regime if claim else "", ", ".join(targets))
    return {
        "number": record.number,
        "name": entry.name,
        "title": record.title,
        "effect": effect_of(record),
        "status": _status(entry, root),
        "where": "; ".join(part for part in where if part),
        "idea": record.idea,
        "gain": round(exp(now.gain), 4),
        "worth": round(abs(now.expected), 4),
        "trust": round(now.trust, 4),
        "confirmed": now.confirmed,
        "contradicted": now.contradicted,
        "latest": now.latest.isoformat() if now.latest else None,
    }


def values_of(entry: StoredLesson, root: Path) -> dict[str, Any]:
    """Return everything about a lesson."""
    fault = _runs(root)
    effect = effect_of(entry.record)
    listed = [
        {
            **one.model_dump(mode="json"),
            "stance": stance(effect, one),
            "fault": fault(one),
        }
        for one in entry.record.evidence
    ]
    record = entry.record.model_dump(mode="json", exclude={"evidence"}, exclude_none=True)
    return {**row_of(entry, root), "record": record, "evidence": listed, "words": entry.words}


def text_of(entry: StoredLesson, root: Path) -> str:
    """Return a lesson as people read it."""
    from search.lessons.wording import evidence_line

    row = row_of(entry, root)
    retired = entry.record.retired
    lines = [
        f"lesson {row['number'] or '-'} ({entry.name}): {row['effect']}, {row['status']}",
        f"  for {row['confirmed']}, against {row['contradicted']}, trust {row['trust']:.0%}, "
        f"shrunken gain {row['gain']:.2f}x, latest {row['latest'] or 'unknown'}",
    ]
    if retired is not None:
        lines.append(f"  retired {retired.at} by {retired.by}: {retired.because}")
    lines += ["", entry.words.rstrip(), "", "Evidence:"]
    fault = _runs(root)
    effect = effect_of(entry.record)
    signs = {True: "+", False: "-"}
    for one in entry.record.evidence:
        side = stance(effect, one)
        sign = signs[side > 0] if side else "·"
        why = fault(one)
        lines.append(f"  {sign} {evidence_line(one)}{f'  [counts nothing: {why}]' if why else ''}")
    older = entry.record.earlier
    if older.confirmed or older.contradicted:
        lines.append(f"  older: {older.confirmed} for, {older.contradicted} against")
    return "\n".join(lines)


def _status(entry: StoredLesson, root: Path) -> str:
    if entry.retired:
        return "retired"
    fault = _runs(root)
    proven = any(fault(one) is None for one in entry.record.evidence)
    return "active" if proven else "unproven"


def _runs(root: Path) -> Callable[[Evidence], str | None]:
    from kb.database import open_engine
    from search.lessons.evidence import Runs

    return Runs(open_engine(Home(root))).fault
