"""The truth of the knowledge base, in SQL: documents, their passages, and the passages' vectors.

It is rebuilt from files by `ingest`; what `kb.indexes` keeps is rebuilt from here. A document and
its passages change in one transaction, so that a killed ingest leaves whole documents only. A
passage whose text has no vector yet is *pending*; whoever opens the knowledge base next embeds it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from sqlalchemy import Engine, bindparam, delete, func, insert, select, update
from sqlalchemy.orm import Session, defer

from kb.database import reading, writing
from kb.records.types import Passage
from kb.store.aliases import MARK
from kb.store.diff import Correct, DocumentChange, advance, rescope, write_entry
from kb.store.tables import (
    DocumentRow,
    NewDocument,
    PassageRow,
    Piece,
    StateRow,
    VectorRow,
    document_value,
    embedded_text,
    passage_value,
)
from kb.store.views import Shelved, find_keys, shelved

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement

    from kb.embedders import Vectors
    from kb.records.schema import Document

__all__ = [
    "DocumentChange",
    "DocumentRow",
    "NameTaken",
    "NewDocument",
    "PassageRow",
    "Piece",
    "StateRow",
    "Store",
    "VectorRow",
    "embedded_text",
]

# A row of a passage comes with its document's: a manual's whole text would come with each.
_WITHOUT_TEXT = (defer(DocumentRow.body), defer(DocumentRow.record))
IN_CLAUSE = 500  # parameters of one statement; every database takes that many


class NameTaken(Exception):
    """Another document has the name."""


class Store:
    """Documents and passages of one database.

    Args:
        engine: a database whose tables are there.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def engine(self) -> Engine:
        """The database."""
        return self._engine

    def put(self, entry: NewDocument) -> DocumentChange | None:
        """Add `entry` or bring the document of its key in step with it, all or nothing.

        Passages that are the same keep their identity and their vectors.

        Returns:
            What became of the passages; None where the same bytes were stored already, perhaps by
            another process.

        Raises:
            NameTaken: an older document is called so, perhaps since a moment ago.
        """
        with writing(self._engine) as session:
            known = session.scalar(select(DocumentRow).where(DocumentRow.key == entry.key))
            if known is not None and known.digest == entry.digest:
                known.stamp = entry.stamp
                return None
            if _first_called(session, entry.shown) not in (None, entry.key):
                raise NameTaken(entry.shown)
            change, seen = write_entry(session, known, entry)
            if seen:
                advance(session)
        return change

    def remove(self, keys: Sequence[str]) -> None:
        """Forget the documents of these keys."""
        if keys:
            with writing(self._engine) as session:
                _delete(session, keys)
                advance(session)

    def stamp(self, stamps: Mapping[str, str]) -> None:
        """Keep new stamps of documents whose bytes did not change: key -> stamp."""
        if stamps:
            statement = update(DocumentRow).where(DocumentRow.key == bindparam("of"))
            rows = [{"of": key, "to": stamp} for key, stamp in stamps.items()]
            with writing(self._engine) as session:
                session.connection().execute(statement.values(stamp=bindparam("to")), rows)

    def stamps(self, prefix: str = "") -> dict[str, str]:
        """Return the stamps of the documents whose key starts with `prefix`."""
        query = select(DocumentRow.key, DocumentRow.stamp)
        with reading(self._engine) as session:
            rows = session.execute(query.where(DocumentRow.key.startswith(prefix, autoescape=True)))
            return {row.key: row.stamp for row in rows}

    def rescope(self, correct: Correct) -> int:
        """Put other scopes in force; return how many passages changed theirs.

        Args:
            correct: from a document's key and name, a section of it (None: the document as a
                whole) and the scope that was found to the one in force.
        """
        with writing(self._engine) as session:
            changed = rescope(session, correct)
            if changed:
                advance(session)
        return changed

    def shelved(self, key: str) -> Shelved | None:
        """Return the document of this key as people look at it, None where there is none."""
        return shelved(self._engine, key)

    def keys(self, name: str) -> list[str]:
        """Return the keys of the documents called `name`: whole, by its end, or by a glob."""
        return find_keys(self._engine, name)

    def sections(self, key: str) -> list[tuple[str, str]]:
        """Return the passages of one document in their order, each as (identity, section)."""
        query = (
            select(PassageRow.id, PassageRow.section)
            .join(DocumentRow, DocumentRow.id == PassageRow.document_id)
            .where(DocumentRow.key == key)
            .order_by(PassageRow.position)
        )
        with reading(self._engine) as session:
            return [(row.id, row.section) for row in session.execute(query)]

    def embedded(self, embedder: str, contents: Sequence[str]) -> set[str]:
        """Return those of the content hashes that have a vector of `embedder`."""
        query = select(VectorRow.content).where(VectorRow.embedder == embedder)
        found: set[str] = set()
        with reading(self._engine) as session:
            for part in _parts(contents):
                found.update(session.scalars(query.where(VectorRow.content.in_(part))))
        return found

    def manifest(self, prefix: str = "") -> dict[str, tuple[str, str]]:
        """Return the documents whose key starts with `prefix`, the oldest first: key -> (digest, shown)."""
        columns = (DocumentRow.key, DocumentRow.digest, DocumentRow.shown)
        query = select(*columns).order_by(DocumentRow.id)
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
        """Count documents, passages, their tokens, and the rows still without a vector."""
        done = select(VectorRow.content)
        row = select(func.count()).select_from(PassageRow)
        passage = row.where(PassageRow.id.not_like(f"%{MARK}%"))
        with reading(self._engine) as session:
            counts = {
                "documents": session.scalar(select(func.count()).select_from(DocumentRow)),
                "passages": session.scalar(passage),
                "tokens": session.scalar(select(func.sum(PassageRow.tokens))),
                "pending": session.scalar(row.where(PassageRow.content.not_in(done))),
            }
        return {name: count or 0 for name, count in counts.items()}

    def passages(self, ids: Sequence[str]) -> dict[str, Passage]:
        """Return the passages of these identities; one that is gone meanwhile is left out."""
        query = select(PassageRow, DocumentRow).join(DocumentRow).options(*_WITHOUT_TEXT)
        found: dict[str, Passage] = {}
        with reading(self._engine) as session:
            for part in _parts(ids):
                for row, document in session.execute(query.where(PassageRow.id.in_(part))):
                    found[row.id] = passage_value(row, document)
        return found

    def pages(self, documents: Sequence[str]) -> dict[str, list[Passage]]:
        """Return the passages of documents in their order, by what quotations call them."""
        query = (
            select(PassageRow, DocumentRow)
            .join(DocumentRow)
            .where(PassageRow.id.not_like(f"%{MARK}%"))
            .order_by(DocumentRow.id, PassageRow.position)
            .options(*_WITHOUT_TEXT)
        )
        found: dict[str, list[Passage]] = {}
        with reading(self._engine) as session:
            for part in _parts(documents):
                for row, document in session.execute(query.where(DocumentRow.shown.in_(part))):
                    found.setdefault(document.shown, []).append(passage_value(row, document))
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
        """Keep one row of `vectors` for each content hash, in the place of an older one."""
        rows = [
            {"content": content, "embedder": embedder, "vector": vector.astype("<f4").tobytes()}
            for content, vector in zip(contents, vectors, strict=True)
        ]
        if rows:
            with writing(self._engine) as session:
                old = delete(VectorRow).where(VectorRow.embedder == embedder)
                for part in _parts(contents):
                    session.execute(old.where(VectorRow.content.in_(part)))
                session.execute(insert(VectorRow), rows)

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

    def _documents(self, kind: str, *conditions: ColumnElement[bool]) -> list[Document]:
        query = select(DocumentRow).where(
            DocumentRow.kind == kind, DocumentRow.record.is_not(None), *conditions
        )
        with reading(self._engine) as session:
            rows = session.scalars(query.order_by(DocumentRow.name, DocumentRow.id))
            return [document_value(row) for row in rows]


def _first_called(session: Session, shown: str) -> str | None:
    """Return the key of the oldest document of a name."""
    named = select(DocumentRow.key).where(DocumentRow.shown == shown)
    return session.scalar(named.order_by(DocumentRow.id).limit(1))


def _delete(session: Session, keys: Sequence[str]) -> None:
    for part in _parts(keys):
        ids = select(DocumentRow.id).where(DocumentRow.key.in_(part))
        session.execute(delete(PassageRow).where(PassageRow.document_id.in_(ids)))
        session.execute(delete(DocumentRow).where(DocumentRow.key.in_(part)))
    session.expunge_all()


def _parts(values: Sequence[str]) -> Iterator[Sequence[str]]:
    return (values[start : start + IN_CLAUSE] for start in range(0, len(values), IN_CLAUSE))


def _matrix(blobs: Sequence[bytes]) -> Vectors:
    import numpy as np

    if not blobs:
        return np.zeros((0, 1), np.float32)
    return np.frombuffer(b"".join(blobs), "<f4").reshape(len(blobs), -1)
