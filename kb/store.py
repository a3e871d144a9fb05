"""The truth of the knowledge base, in SQL: documents, their passages, and the passages' vectors.

It is rebuilt from files by `ingest`; what `kb.indexes` keeps is rebuilt from here. A document and
its passages change in one transaction, so that a killed ingest leaves whole documents only. A
passage whose text has no vector yet is *pending*; whoever opens the knowledge base next embeds it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

from sqlalchemy import Engine, ForeignKey, LargeBinary, String, delete, func, select
from sqlalchemy.orm import Mapped, Session, mapped_column

from kb.database import Base, reading, writing
from kb.types import Kind, Passage, Scope

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from sqlalchemy import ColumnElement

    from kb.embedders import Vectors
    from kb.records import Document

IN_CLAUSE = 500  # parameters of one statement; every database takes that many


class DocumentRow(Base):
    """One file of the manifest."""

    __tablename__ = "documents"
    id: Mapped[int] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(String, unique=True)  # label:path, or the absolute path
    shown: Mapped[str]
    digest: Mapped[str]
    kind: Mapped[str] = mapped_column(String, index=True)
    name: Mapped[str]
    title: Mapped[str]
    record: Mapped[str | None]  # front matter as JSON; None for a plain document
    body: Mapped[str]
    scope: Mapped[str]
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
class Piece:
    """A passage before it has an identity."""

    section: str  # breadcrumb: "Title > Heading"
    text: str
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A document as it enters the store.

    Attributes:
        key: its identity, whatever it says: label and path, or the absolute path.
        shown: what a quotation calls it.
        digest: hash of the file's bytes.
        name: the file's stem.
        record: validated front matter as JSON values; None for a plain document.
    """

    key: str
    shown: str
    digest: str
    kind: Kind
    name: str
    title: str
    body: str
    record: Mapping[str, Any] | None = None
    scope: Scope = field(default_factory=Scope)
    symptoms: tuple[str, ...] = ()
    pieces: tuple[Piece, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All that has a vector, at one moment.

    Attributes:
        vectors: float32, one row for each passage.
        complete: no passage was left out for want of a vector.
    """

    generation: str
    passages: tuple[Passage, ...]
    vectors: Vectors
    complete: bool


def embedded_text(section: str, text: str) -> str:
    """Return what is embedded for a passage: a section cut from its page means little alone."""
    return f"{section}\n{text}"


class Store:
    """Documents and passages of one database.

    Args:
        engine: a database whose tables are there.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def put(self, entry: Entry) -> bool:
        """Add `entry` or replace the document of its key, all or nothing.

        Returns:
            Whether anything changed: another process may have stored the same bytes first.
        """
        with writing(self._engine) as session:
            known = session.scalar(select(DocumentRow).where(DocumentRow.key == entry.key))
            if known is not None and known.digest == entry.digest:
                return False
            _delete(session, [entry.key])
            row = _document_row(entry)
            session.add(row)
            session.flush()
            session.add_all(_passage_rows(entry, row.id))
            _advance(session)
        return True

    def remove(self, keys: Sequence[str]) -> None:
        """Forget the documents of these keys."""
        if keys:
            with writing(self._engine) as session:
                _delete(session, keys)
                _advance(session)

    def manifest(self, prefix: str = "") -> dict[str, tuple[str, str]]:
        """Return the documents whose key starts with `prefix`: key -> (digest, shown)."""
        query = select(DocumentRow.key, DocumentRow.digest, DocumentRow.shown)
        with reading(self._engine) as session:
            rows = session.execute(query.where(DocumentRow.key.startswith(prefix, autoescape=True)))
            return {key: (digest, shown) for key, digest, shown in rows}

    def document(self, kind: str, name: str) -> Document | None:
        """Return the record called `name`, or None; the latest where two roots have one."""
        found = self._documents(kind, DocumentRow.name == name)
        return found[-1] if found else None

    def documents(self, kind: str) -> list[Document]:
        """Return all records of one kind by name; plain documents carry no record."""
        return self._documents(kind)

    def stats(self) -> dict[str, int]:
        """Count documents, passages, their tokens, and the passages still without a vector."""
        done = select(VectorRow.content)
        passage = select(func.count()).select_from(PassageRow)
        with reading(self._engine) as session:
            counts = {
                "documents": session.scalar(select(func.count()).select_from(DocumentRow)),
                "passages": session.scalar(passage),
                "tokens": session.scalar(select(func.sum(PassageRow.tokens))),
                "pending": session.scalar(passage.where(PassageRow.content.not_in(done))),
            }
        return {name: count or 0 for name, count in counts.items()}

    def passages(self, ids: Sequence[str]) -> dict[str, Passage]:
        """Return the passages of these identities; one that is gone meanwhile is left out."""
        query = select(PassageRow, DocumentRow).join(DocumentRow)
        found: dict[str, Passage] = {}
        with reading(self._engine) as session:
            for part in _parts(ids):
                for row, document in session.execute(query.where(PassageRow.id.in_(part))):
                    found[row.id] = _passage(row, document)
        return found

    def generation(self) -> str:
        """Return a name that changes whenever a passage does."""
        return self.state("generation") or "empty"

    def state(self, name: str) -> str | None:
        """Return the value kept under `name`."""
        with reading(self._engine) as session:
            return session.scalar(select(StateRow.value).where(StateRow.name == name))

    def set_state(self, name: str, value: str) -> None:
        """Keep `value` under `name`."""
        with writing(self._engine) as session:
            session.merge(StateRow(name=name, value=value))

    def pending(self, embedder: str) -> dict[str, str]:
        """Return the texts that have no vector of `embedder`: content hash -> text to embed."""
        done = select(VectorRow.content).where(VectorRow.embedder == embedder)
        query = (
            select(PassageRow.content, PassageRow.section, PassageRow.text)
            .where(PassageRow.content.not_in(done))
            .order_by(PassageRow.document_id, PassageRow.position)
        )
        with reading(self._engine) as session:
            return {
                content: embedded_text(section, text)
                for content, section, text in session.execute(query)
            }

    def put_vectors(self, embedder: str, contents: Sequence[str], vectors: Vectors) -> None:
        """Keep one row of `vectors` for each content hash."""
        with writing(self._engine) as session:
            for content, vector in zip(contents, vectors, strict=True):
                blob = vector.astype("<f4").tobytes()
                session.merge(VectorRow(content=content, embedder=embedder, vector=blob))

    def vectors(self, embedder: str, prefix: str) -> tuple[list[str], Vectors]:
        """Return the content hashes and the vectors of the documents of these keys."""
        query = (
            select(VectorRow.content, VectorRow.vector)
            .join(PassageRow, PassageRow.content == VectorRow.content)
            .join(DocumentRow, DocumentRow.id == PassageRow.document_id)
            .where(VectorRow.embedder == embedder)
            .where(DocumentRow.key.startswith(prefix, autoescape=True))
            .distinct()
            .order_by(VectorRow.content)
        )
        with reading(self._engine) as session:
            found = session.execute(query).all()
        return [content for content, _ in found], _matrix([blob for _, blob in found])

    def drop_unused_vectors(self) -> None:
        """Forget the vectors of texts that no passage has any more."""
        used = select(PassageRow.content)
        with writing(self._engine) as session:
            session.execute(delete(VectorRow).where(VectorRow.content.not_in(used)))

    def snapshot(self, embedder: str) -> Snapshot:
        """Return one consistent state of all passages that have a vector, in a fixed order."""
        pairs = (
            select(PassageRow, DocumentRow, VectorRow.vector)
            .join(DocumentRow, DocumentRow.id == PassageRow.document_id)
            .join(VectorRow, VectorRow.content == PassageRow.content)
            .where(VectorRow.embedder == embedder)
            .order_by(PassageRow.id)
        )
        with reading(self._engine) as session:
            value = session.scalar(select(StateRow.value).where(StateRow.name == "generation"))
            total = session.scalar(select(func.count()).select_from(PassageRow))
            found = session.execute(pairs).all()
            passages = tuple(_passage(row, document) for row, document, _ in found)
        return Snapshot(
            generation=value or "empty",
            passages=passages,
            vectors=_matrix([blob for *_, blob in found]),
            complete=len(found) == total,
        )

    def _documents(self, kind: str, *conditions: ColumnElement[bool]) -> list[Document]:
        query = select(DocumentRow).where(
            DocumentRow.kind == kind, DocumentRow.record.is_not(None), *conditions
        )
        with reading(self._engine) as session:
            rows = session.scalars(query.order_by(DocumentRow.name, DocumentRow.id))
            return [_document(row) for row in rows]


def _delete(session: Session, keys: Sequence[str]) -> None:
    for part in _parts(keys):
        ids = select(DocumentRow.id).where(DocumentRow.key.in_(part))
        session.execute(delete(PassageRow).where(PassageRow.document_id.in_(ids)))
        session.execute(delete(DocumentRow).where(DocumentRow.key.in_(part)))
    session.expunge_all()


def _advance(session: Session) -> None:
    # A name, not a number: a database that is made anew must not meet the indexes of the old one.
    session.merge(StateRow(name="generation", value=uuid4().hex))


def _parts(values: Sequence[str]) -> Iterator[Sequence[str]]:
    return (values[start : start + IN_CLAUSE] for start in range(0, len(values), IN_CLAUSE))


def _matrix(blobs: Sequence[bytes]) -> Vectors:
    import numpy as np

    if not blobs:
        return np.zeros((0, 1), np.float32)
    return np.frombuffer(b"".join(blobs), "<f4").reshape(len(blobs), -1)


def _hash(*parts: str) -> str:
    return blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()


def _document_row(entry: Entry) -> DocumentRow:
    return DocumentRow(
        key=entry.key,
        shown=entry.shown,
        digest=entry.digest,
        kind=entry.kind,
        name=entry.name,
        title=entry.title,
        record=None if entry.record is None else json.dumps(entry.record),
        body=entry.body,
        scope=json.dumps(asdict(entry.scope)),
        symptoms=json.dumps(entry.symptoms),
        ingested=time.time(),
    )


def _passage_rows(entry: Entry, document: int) -> list[PassageRow]:
    rows: dict[str, PassageRow] = {}
    for position, piece in enumerate(entry.pieces):
        # The same words twice under one heading are one passage.
        identity = _hash(entry.key, entry.shown, entry.kind, piece.section, piece.text)
        rows.setdefault(
            identity,
            PassageRow(
                id=identity,
                document_id=document,
                position=position,
                section=piece.section,
                text=piece.text,
                tokens=piece.tokens,
                content=_hash(embedded_text(piece.section, piece.text)),
            ),
        )
    return list(rows.values())


def _scope(row: DocumentRow) -> Scope:
    return Scope(**{name: tuple(values) for name, values in json.loads(row.scope).items()})


def _passage(row: PassageRow, document: DocumentRow) -> Passage:
    return Passage(
        id=row.id,
        document=document.shown,
        section=row.section,
        kind=cast("Kind", document.kind),
        text=row.text,
        tokens=row.tokens,
        scope=_scope(document),
        symptoms=tuple(json.loads(document.symptoms)),
    )


def _document(row: DocumentRow) -> Document:
    from kb.records import Document

    record = _records().validate_json(row.record or "null")
    return Document(name=row.name, path=row.shown, record=record, body=row.body)


@cache
def _records() -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    from kb.records import Record

    return TypeAdapter(Record)
