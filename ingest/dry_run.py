"""What an ingest would do, found out by doing all of it but the writing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ingest.collect import Source, named
from ingest.pipeline import Gone, IngestOptions, look
from kb.progress import Progress, silent
from kb.store.diff import DocumentChange, compare
from kb.store.documents import Store
from kb.store.tables import NewDocument, embedded_text, passage_rows

SAMPLED = 256  # texts kept to time the encoder by


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One document that would be read."""

    shown: str
    known: bool
    passages: int
    tokens: int
    flagged: int
    change: DocumentChange


@dataclass(kw_only=True)
class IngestPlan:
    """What would be made, and what would be refused.

    Attributes:
        unread: those of the refused that were asked for by their own path or pattern.
        unchanged: documents that would be skipped.
        removed: documents whose files are gone.
        to_embed: passages without a vector.
        texts: of some of them.
    """

    documents: list[Planned] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    unchanged: int = 0
    removed: list[str] = field(default_factory=list)
    to_embed: int = 0
    texts: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "documents": [
                {
                    "document": one.shown,
                    "known": one.known,
                    "passages": one.passages,
                    "tokens": one.tokens,
                    "flagged": one.flagged,
                    "new": one.change.new,
                    "changed": one.change.changed,
                    "kept": one.change.kept,
                    "removed": one.change.removed,
                }
                for one in self.documents
            ],
            "refused": [{"document": name, "reason": why} for name, why in self.refused],
            "unread": self.unread,
            "unchanged": self.unchanged,
            "removed": self.removed,
            "to_embed": self.to_embed,
        }


def plan(
    sources: Sequence[Source],
    store: Store,
    embedder: str,
    *,
    terms: IngestOptions,
    progress: Progress = silent,
) -> IngestPlan:
    """Read `sources` as an ingest would, and write nothing.

    Args:
        embedder: name of the one whose vectors are looked for.
    """
    found = IngestPlan()
    waiting: set[str] = set()
    asked = named(sources)
    for one in look(sources, store, terms=terms, progress=progress):
        if isinstance(one, Gone):
            found.removed.append(one.shown)
        elif one.reason is not None:
            found.refused.append((one.shown, one.reason))
            if one.key in asked:
                found.unread.append(one.shown)
        elif one.entry is None:
            found.unchanged += 1
        else:
            found.documents.append(_planned(one.entry, store, known=one.known))
            _note(one.entry, store, embedder, waiting, found)
    found.to_embed = len(waiting)
    return found


def _planned(entry: NewDocument, store: Store, *, known: bool) -> Planned:
    rows = passage_rows(entry, 0)
    after = [(identity, row.section) for identity, row in rows.items()]
    return Planned(
        shown=entry.shown,
        known=known,
        passages=len(rows),
        tokens=sum(row.tokens for row in rows.values()),
        flagged=sum(bool(row.flags) for row in rows.values()),
        change=compare(store.sections(entry.key) if known else (), after),
    )


def _note(
    entry: NewDocument, store: Store, embedder: str, waiting: set[str], found: IngestPlan
) -> None:
    """Add the passages of `entry` that have no vector to those that wait for one."""
    rows = {row.content: row for row in passage_rows(entry, 0).values()}
    for content in rows.keys() - store.embedded(embedder, list(rows)) - waiting:
        waiting.add(content)
        if len(found.texts) < SAMPLED:
            found.texts.append(embedded_text(rows[content].section, rows[content].text))
