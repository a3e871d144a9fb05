"""How a document in the store becomes another version of itself, passage by passage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from uuid import uuid4

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from kb.records.types import Scope
from kb.store.tables import (
    DocumentRow,
    NewDocument,
    PassageRow,
    StateRow,
    document_row,
    found_value,
    passage_rows,
    scope_text,
)

# From key, name, section and the scope found to the scope in force.
Correct = Callable[[str, str, str | None, Scope], Scope]

_DOCUMENT = ("key", "shown", "digest", "stamp", "kind", "name", "title", "record", "body")
_DOCUMENT_SEEN = ("shown", "kind", "scope", "symptoms")  # what every passage of it shows
_PASSAGE = ("position", "first_page", "last_page", "flags", "scope", "found")
_PASSAGE_SEEN = ("first_page", "last_page", "flags", "scope")
_AT_ONCE = 500  # identities in one statement; every database takes that many


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentChange:
    """What became of a document's passages, in numbers.

    Attributes:
        new: under a heading that lost none.
        changed: other words under a heading that lost as many.
        kept: the same words under the same heading: nothing is embedded again.
        removed: under a heading that got none in their place.
    """

    new: int = 0
    changed: int = 0
    kept: int = 0
    removed: int = 0

    def __add__(self, other: DocumentChange) -> DocumentChange:
        return DocumentChange(
            new=self.new + other.new,
            changed=self.changed + other.changed,
            kept=self.kept + other.kept,
            removed=self.removed + other.removed,
        )

    def line(self) -> str:
        """Return the numbers that are not zero in words."""
        parts = (
            (self.new, "new"),
            (self.changed, "changed"),
            (self.kept, "unchanged"),
            (self.removed, "removed"),
        )
        return ", ".join(f"{count} {what}" for count, what in parts if count) or "no passages"


def compare(before: Iterable[tuple[str, str]], after: Iterable[tuple[str, str]]) -> DocumentChange:
    """Compare two versions of a document, each as (identity, section) of its passages."""
    old, new = dict(before), dict(after)
    lost = Counter(section for identity, section in old.items() if identity not in new)
    got = Counter(section for identity, section in new.items() if identity not in old)
    changed = (lost & got).total()
    return DocumentChange(
        new=got.total() - changed,
        changed=changed,
        kept=len(old.keys() & new.keys()),
        removed=lost.total() - changed,
    )


def write_entry(
    session: Session, known: DocumentRow | None, entry: NewDocument
) -> tuple[DocumentChange, bool]:
    """Write `entry` over `known`, touching only the rows that differ.

    Returns:
        What became of the passages, and whether a search could see any of it.
    """
    row = document_row(entry)
    if known is None:
        session.add(row)
        session.flush()
        wanted = passage_rows(entry, row.id)
        session.add_all(wanted.values())
        return DocumentChange(new=len(wanted)), True
    seen = _copied(row, known, _DOCUMENT_SEEN)
    _copied(row, known, (*_DOCUMENT, "found", "ingested"))
    there = {
        one.id: one
        for one in session.scalars(select(PassageRow).where(PassageRow.document_id == known.id))
    }
    wanted = passage_rows(entry, known.id)
    change = compare(
        ((one.id, one.section) for one in there.values()),
        ((one.id, one.section) for one in wanted.values()),
    )
    gone = sorted(there.keys() - wanted.keys())
    for start in range(0, len(gone), _AT_ONCE):
        some = gone[start : start + _AT_ONCE]
        session.execute(delete(PassageRow).where(PassageRow.id.in_(some)))
    for identity, one in wanted.items():
        if identity not in there:
            session.add(one)
            continue
        seen = _copied(one, there[identity], _PASSAGE_SEEN) or seen
        _copied(one, there[identity], _PASSAGE)
    return change, bool(seen or change.new or change.changed or change.removed)


def rescope(session: Session, correct: Correct) -> int:
    """Put the scopes in force that `correct` makes of those that were found."""
    changed = 0
    columns = (PassageRow.id, PassageRow.section, PassageRow.found, PassageRow.scope)
    for document in session.scalars(select(DocumentRow).order_by(DocumentRow.id)):
        before, found = document.scope, found_value(document.found).scope
        whole = correct(document.key, document.shown, None, found)
        document.scope = scope_text(whole)
        passages = select(*columns).where(PassageRow.document_id == document.id)
        rows = []
        for identity, section, own, old in session.execute(passages).all():
            start = found if own is None else found_value(own).scope
            scope = correct(document.key, document.shown, section, start)
            new = None if scope == whole else scope_text(scope)
            changed += (new or document.scope) != (old or before)
            if new != old:
                rows.append({"id": identity, "scope": new})
        if rows:
            session.execute(update(PassageRow), rows)
    return changed


def advance(session: Session) -> None:
    """Give the passages a new generation.

    A name, not a number: a database that is made anew must not meet the indexes of the old one.
    """
    session.merge(StateRow(name="generation", value=uuid4().hex))


def _copied(source: object, target: object, names: Iterable[str]) -> bool:
    """Copy what differs of `names`; return whether anything did."""
    differing = [name for name in names if getattr(source, name) != getattr(target, name)]
    for name in differing:
        setattr(target, name, getattr(source, name))
    return bool(differing)
