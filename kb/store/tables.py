"""The tables of the knowledge base, and how its values become their rows."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, cast

from sqlalchemy import ForeignKey, LargeBinary, String
from sqlalchemy.orm import Mapped, mapped_column

from kb.database import Base
from kb.records.types import Kind, Passage, Scope
from kb.store.aliases import asked_identity

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    from kb.records.schema import Document


class DocumentRow(Base):
    """One file of the manifest."""

    __tablename__ = "documents"
    id: Mapped[int] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(String, unique=True)  # label:path, or the absolute path
    shown: Mapped[str] = mapped_column(String, index=True)
    digest: Mapped[str]
    stamp: Mapped[str] = mapped_column(String, server_default="")  # size and times of the file
    kind: Mapped[str] = mapped_column(String, index=True)
    name: Mapped[str]
    title: Mapped[str]
    record: Mapped[str | None]  # front matter as JSON; None for a plain document
    body: Mapped[str]
    scope: Mapped[str]  # in force: what was found, as the user corrected it
    found: Mapped[str] = mapped_column(String, server_default="")  # scope with reasons; JSON
    symptoms: Mapped[str]
    ingested: Mapped[float]  # seconds since the epoch


class PassageRow(Base):
    """One piece of a document."""

    __tablename__ = "passages"
    id: Mapped[str] = mapped_column(primary_key=True)
    document_id: Mapped[int] = mapped_column(
        ForeignKey("documents.id", ondelete="CASCADE"), index=True
    )
    position: Mapped[int]
    section: Mapped[str]
    text: Mapped[str]
    tokens: Mapped[int]
    content: Mapped[str] = mapped_column(String, index=True)  # hash of what is embedded
    first_page: Mapped[int | None]
    last_page: Mapped[int | None]
    flags: Mapped[str] = mapped_column(String, server_default="")  # words with spaces between
    scope: Mapped[str | None]  # in force, where it is another than its document's
    found: Mapped[str | None]  # scope of its own with reasons; JSON


class VectorRow(Base):
    """The vector of a text, whichever passages have that text."""

    __tablename__ = "vectors"
    content: Mapped[str] = mapped_column(primary_key=True)
    embedder: Mapped[str] = mapped_column(primary_key=True)
    vector: Mapped[bytes] = mapped_column(LargeBinary)  # little-endian float32


class StateRow(Base):
    """A named value: the generation of the passages, the digest of a folder in sync."""

    __tablename__ = "state"
    name: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeEvidence:
    """A scope, and for each of its values why it was found."""

    scope: Scope = field(default_factory=Scope)
    reasons: tuple[str, ...] = ()  # "vendor nvidia: the title says CUDA"


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A passage before it has an identity.

    Attributes:
        section: breadcrumb, "Title > Heading"; it has no page in it, so that a page that moves
            changes no identity.
        found: a scope of its own, where it is another than its document's.
        scope: that scope as the user corrected it.
        asked: other words for it, a text for each row that speaks for it.
    """

    section: str
    text: str
    tokens: int
    pages: tuple[int, int] | None = None
    flags: tuple[str, ...] = ()
    found: ScopeEvidence | None = None
    scope: Scope | None = None
    asked: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDocument:
    """A document as it enters the store.

    Attributes:
        key: its identity, whatever it says: label and path, or the absolute path.
        shown: what a quotation calls it.
        digest: hash of the file's bytes.
        stamp: size and times of the file: while they stay, it need not be read.
        name: the file's stem.
        record: validated front matter as JSON values; None for a plain document.
        scope: in force, as the user corrected what was found.
    """

    key: str
    shown: str
    digest: str
    kind: Kind
    name: str
    title: str
    body: str
    stamp: str = ""
    record: Mapping[str, Any] | None = None
    scope: Scope = field(default_factory=Scope)
    found: ScopeEvidence = field(default_factory=ScopeEvidence)
    symptoms: tuple[str, ...] = ()
    pieces: tuple[Piece, ...] = ()


def embedded_text(section: str, text: str) -> str:
    """Return what is embedded for a passage: a section cut from its page means little alone."""
    return f"{section}\n{text}"


def document_row(entry: NewDocument) -> DocumentRow:
    """Return the row of a document."""
    return DocumentRow(
        key=entry.key,
        shown=entry.shown,
        digest=entry.digest,
        stamp=entry.stamp,
        kind=entry.kind,
        name=entry.name,
        title=entry.title,
        record=None if entry.record is None else json.dumps(entry.record),
        body=entry.body,
        scope=scope_text(entry.scope),
        found=found_text(entry.found),
        symptoms=json.dumps(entry.symptoms),
        ingested=time.time(),
    )


def passage_rows(entry: NewDocument, document: int) -> dict[str, PassageRow]:
    """Return the rows of a document's passages, and of the other words for them, by identity."""
    rows: dict[str, PassageRow] = {}
    for position, piece in enumerate(entry.pieces):
        # The same words twice under one heading are one passage.
        identity = _hash(entry.key, entry.shown, entry.kind, piece.section, piece.text)
        rows.setdefault(identity, _passage_row(identity, piece, document, position))
        for text in piece.asked:
            # Under the title alone: with the headings the vector says too little of the words.
            words = Piece(
                section=entry.title, text=text, tokens=0, found=piece.found, scope=piece.scope
            )
            one = asked_identity(identity, _hash(entry.title, text))
            rows.setdefault(one, _passage_row(one, words, document, position))
    return rows


def _passage_row(identity: str, piece: Piece, document: int, position: int) -> PassageRow:
    first, last = piece.pages or (None, None)
    return PassageRow(
        id=identity,
        document_id=document,
        position=position,
        section=piece.section,
        text=piece.text,
        tokens=piece.tokens,
        content=_hash(embedded_text(piece.section, piece.text)),
        first_page=first,
        last_page=last,
        flags=" ".join(piece.flags),
        scope=None if piece.scope is None else scope_text(piece.scope),
        found=None if piece.found is None else found_text(piece.found),
    )


def scope_text(scope: Scope) -> str:
    """Return the text by which a row holds a scope."""
    return json.dumps(asdict(scope))


def scope_value(text: str) -> Scope:
    """Return the scope that a row holds."""
    return Scope(**{name: tuple(values) for name, values in json.loads(text).items()})


def found_text(found: ScopeEvidence) -> str:
    """Return the text by which a row holds what was found."""
    return json.dumps({"scope": asdict(found.scope), "reasons": found.reasons})


def found_value(text: str | None) -> ScopeEvidence:
    """Return what a row holds; documents of an older version hold nothing."""
    if not text:
        return ScopeEvidence()
    plain = json.loads(text)
    scope = Scope(**{name: tuple(values) for name, values in plain["scope"].items()})
    return ScopeEvidence(scope=scope, reasons=tuple(plain["reasons"]))


def passage_value(row: PassageRow, document: DocumentRow) -> Passage:
    """Return the passage of a row."""
    first, last = row.first_page, row.last_page
    return Passage(
        id=row.id,
        document=document.shown,
        section=row.section,
        kind=cast("Kind", document.kind),
        text=row.text,
        tokens=row.tokens,
        scope=scope_value(row.scope or document.scope),
        symptoms=tuple(json.loads(document.symptoms)),
        pages=None if first is None else (first, first if last is None else last),
        flags=tuple((row.flags or "").split()),
    )


def document_value(row: DocumentRow) -> Document:
    """Return the record of a row."""
    from kb.records.schema import Document

    record = _records().validate_json(row.record or "null")
    return Document(name=row.name, path=row.shown, record=record, body=row.body)


def _hash(*parts: str) -> str:
    return blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()


@cache
def _records() -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    from kb.records.schema import Record

    return TypeAdapter(Record)
