"""One document of the store as people look at it: its passages, and why they apply where they do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from typing import Any

from sqlalchemy import Engine, select

from kb.database import reading
from kb.records.types import Passage, Scope
from kb.store.aliases import speaks_for
from kb.store.tables import (
    DocumentRow,
    NewDocument,
    PassageRow,
    ScopeEvidence,
    document_row,
    found_value,
    passage_rows,
    passage_value,
    scope_value,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelved:
    """A document with its passages.

    Attributes:
        found: where it applies as it was found out.
        scope: where it applies as the user corrected that.
        passages: in their order, each with what was found about it alone.
        asked: other words for a passage, by its identity, one phrase a line.
    """

    key: str
    shown: str
    kind: str
    title: str
    digest: str
    found: ScopeEvidence
    scope: Scope
    passages: tuple[tuple[Passage, ScopeEvidence | None], ...]
    asked: Mapping[str, str]

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "document": self.shown,
            "key": self.key,
            "kind": self.kind,
            "title": self.title,
            "scope": plain_scope(self.scope),
            "found": plain_scope(self.found.scope),
            "reasons": list(self.found.reasons),
            "tokens": sum(passage.tokens for passage, _ in self.passages),
            "passages": [
                {
                    "id": passage.id,
                    "section": passage.section,
                    "pages": passage.pages,
                    "tokens": passage.tokens,
                    "scope": plain_scope(passage.scope),
                    "reasons": [] if own is None else list(own.reasons),
                    "flags": list(passage.flags),
                    "text": passage.text,
                    "asked": self.asked.get(passage.id, "").splitlines(),
                }
                for passage, own in self.passages
            ],
        }


def plain_scope(scope: Scope) -> dict[str, list[str]]:
    """Return the fields of a scope that say something."""
    return {name: list(values) for name, values in asdict(scope).items() if values}


def shelved(engine: Engine, key: str) -> Shelved | None:
    """Return the document of this key, None where the store has none."""
    with reading(engine) as session:
        document = session.scalar(select(DocumentRow).where(DocumentRow.key == key))
        if document is None:
            return None
        query = select(PassageRow).where(PassageRow.document_id == document.id)
        rows = session.scalars(query.order_by(PassageRow.position)).all()
        return _shelved(document, rows)


def as_shelved(entry: NewDocument) -> Shelved:
    """Return a document that is not in the store as it would be there."""
    document = document_row(entry)
    rows = sorted(passage_rows(entry, 0).values(), key=lambda row: row.position)
    return _shelved(document, rows)


def find_keys(engine: Engine, name: str) -> list[str]:
    """Return the keys of the documents that are called so.

    A name is a key, what quotations call the document, the end of either after a ``/``, or a glob.
    """
    with reading(engine) as session:
        pairs = session.execute(select(DocumentRow.key, DocumentRow.shown)).all()
    exact = [key for key, shown in pairs if name in (key, shown)]
    if exact:
        return exact
    ends = [
        key for key, shown in pairs if f"/{key}".endswith(f"/{name}") or shown.endswith(f"/{name}")
    ]
    return ends or [
        key for key, shown in pairs if fnmatchcase(key, name) or fnmatchcase(shown, name)
    ]


def _shelved(document: DocumentRow, rows: Sequence[PassageRow]) -> Shelved:
    asked: dict[str, str] = {}
    for row in rows:
        passage = speaks_for(row.id)
        if passage is not None:
            asked[passage] = f"{asked[passage]}\n{row.text}" if passage in asked else row.text
    return Shelved(
        key=document.key,
        shown=document.shown,
        kind=document.kind,
        title=document.title,
        digest=document.digest,
        found=found_value(document.found),
        scope=scope_value(document.scope),
        passages=tuple(
            (
                passage_value(row, document),
                None if row.found is None else found_value(row.found),
            )
            for row in rows
            if speaks_for(row.id) is None
        ),
        asked=asked,
    )
