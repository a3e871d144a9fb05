"""The store in columns: what the indexes are made of, read and written many rows at a time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from sqlalchemy import Engine, delete, exists, func, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from kb.database import reading, writing
from kb.indexes import Moved
from kb.indexes.files import PassageColumns, Source
from kb.indexes.segments import IndexedText
from kb.records.types import Kind
from kb.store.tables import DocumentRow, PassageRow, StateRow, VectorRow, embedded_text, scope_value

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kb.embedders import Vectors

AT_ONCE = 500  # identities in one statement; every database takes that many
IN_MEMORY = 8192  # rows of a result that are held at a time


@dataclass(frozen=True, slots=True)
class _About:
    shown: str
    kind: Kind
    scope: str
    symptoms: str


class IndexSource:
    """Passages of one database and their vectors of one embedder.

    Args:
        engine: a database whose tables are there.
        embedder: its name.
    """

    def __init__(self, engine: Engine, embedder: str) -> None:
        self._engine = engine
        self._embedder = embedder

    def counts(self) -> tuple[int, int]:
        """Return how many passages there are, and how many have a vector."""
        total = select(func.count()).select_from(PassageRow)
        with reading(self._engine) as session:
            every = session.scalar(total)
            done = session.scalar(total.where(self._embedded()))
        return every or 0, done or 0

    def pending(self) -> list[str]:
        """Return the content hashes that have no vector, the longest first.

        Texts that are embedded together are padded to one length: a tenth of the time is in that.
        """
        query = (
            select(PassageRow.content)
            .where(~self._embedded())
            .order_by(PassageRow.tokens.desc(), PassageRow.document_id, PassageRow.position)
        )
        with reading(self._engine) as session:
            return list(dict.fromkeys(session.scalars(query)))

    def texts(self, contents: Sequence[str]) -> dict[str, str]:
        """Return what is embedded for these content hashes; what is gone is left out."""
        query = select(PassageRow.content, PassageRow.section, PassageRow.text)
        found: dict[str, str] = {}
        with reading(self._engine) as session:
            for part in _parts(contents):
                for content, section, text in session.execute(
                    query.where(PassageRow.content.in_(part))
                ):
                    found[content] = embedded_text(section, text)
        return {content: found[content] for content in contents if content in found}

    def keep(self, contents: Sequence[str], vectors: Vectors) -> None:
        """Keep one row of `vectors` for each content hash; another process may have done so."""
        rows = [
            {
                "content": content,
                "embedder": self._embedder,
                "vector": vector.astype("<f4").tobytes(),
            }
            for content, vector in zip(contents, vectors, strict=True)
        ]
        if rows:
            postgres = self._engine.dialect.name == "postgresql"
            insert = postgresql.insert if postgres else sqlite.insert
            with writing(self._engine) as session:
                statement = insert(VectorRow).on_conflict_do_nothing()
                session.connection().execute(statement, rows)

    def outline(self) -> PassageColumns:
        """Return all passages that have a vector, at one moment."""
        query = (
            select(PassageRow.id, PassageRow.document_id, PassageRow.tokens, PassageRow.scope)
            .where(self._embedded())
            .order_by(PassageRow.id)
        )
        with reading(self._engine) as session:
            value = session.scalar(select(StateRow.value).where(StateRow.name == "generation"))
            total = session.scalar(select(func.count()).select_from(PassageRow))
            documents = _documents(session)
            rows = session.connection().execute(query.execution_options(yield_per=IN_MEMORY))
            return _outline(value or "empty", total or 0, documents, rows.partitions())

    def read(self, ids: Sequence[str]) -> Iterator[IndexedText]:
        """Return what is indexed of these passages, in their order.

        Raises:
            Moved: one is gone.
        """
        query = (
            select(
                PassageRow.id,
                PassageRow.section,
                PassageRow.text,
                DocumentRow.symptoms,
                VectorRow.vector,
            )
            .join(DocumentRow, DocumentRow.id == PassageRow.document_id)
            .join(VectorRow, VectorRow.content == PassageRow.content)
            .where(VectorRow.embedder == self._embedder)
        )
        with reading(self._engine) as session:
            for part in _parts(ids):
                rows = session.connection().execute(query.where(PassageRow.id.in_(part)))
                found = {row.id: row for row in rows}
                if len(found) < len(part):
                    raise Moved
                yield from (_text(found[identity]) for identity in part)

    def forget(self, embedders: Sequence[str]) -> None:
        """Delete the vectors of all embedders but these."""
        with writing(self._engine) as session:
            session.execute(delete(VectorRow).where(VectorRow.embedder.not_in(embedders)))

    def stored(self) -> int:
        """Return how many vectors are kept, used or not."""
        query = select(func.count()).where(VectorRow.embedder == self._embedder)
        with reading(self._engine) as session:
            return session.scalar(query) or 0

    def sample(self) -> tuple[str, Vectors] | None:
        """Return a text with the vector that is kept for it, None where there is none."""
        query = (
            select(PassageRow.section, PassageRow.text, VectorRow.vector)
            .join(VectorRow, VectorRow.content == PassageRow.content)
            .where(VectorRow.embedder == self._embedder)
            .limit(1)
        )
        with reading(self._engine) as session:
            found = session.execute(query).first()
        if found is None:
            return None
        return embedded_text(found.section, found.text), np.frombuffer(found.vector, "<f4")

    def _embedded(self) -> Any:
        return exists().where(
            VectorRow.content == PassageRow.content, VectorRow.embedder == self._embedder
        )


def _documents(session: Session) -> dict[int, _About]:
    query = select(
        DocumentRow.id,
        DocumentRow.shown,
        DocumentRow.kind,
        DocumentRow.scope,
        DocumentRow.symptoms,
    )
    return {
        number: _About(shown, cast("Kind", kind), scope, symptoms)
        for number, shown, kind, scope, symptoms in session.connection().execute(query)
    }


def _outline(
    generation: str,
    total: int,
    documents: Mapping[int, _About],
    partitions: Iterable[Sequence[Any]],
) -> PassageColumns:
    ids: list[NDArray[np.bytes_]] = [np.zeros(0, "S1")]
    columns: list[NDArray[np.int64]] = [np.zeros((3, 0), np.int64)]
    numbers: dict[tuple[int, str | None], int] = {}
    marked = {number: _mark(about.symptoms) for number, about in documents.items()}
    for part in partitions:
        names, of, sizes, scopes = zip(*part, strict=True)
        ids.append(np.array(names, np.bytes_))
        sources = [numbers.setdefault(pair, len(numbers)) for pair in zip(of, scopes, strict=True)]
        columns.append(np.array([sizes, sources, [marked[one] for one in of]], np.int64))
    tokens, source_of, marks = np.concatenate(columns, axis=1)
    every = np.concatenate(ids)
    return PassageColumns(
        generation=generation,
        ids=every,
        marks=marks,
        sources=tuple(_source(documents[document], scope) for document, scope in numbers),
        source_of=source_of.astype(np.int32),
        tokens=tokens.astype(np.int32),
        complete=len(every) == total,
    )


def _source(about: _About, scope: str | None) -> Source:
    return Source(
        shown=about.shown,
        kind=about.kind,
        scope=_scope(scope or about.scope),
        symptoms=_symptoms(about.symptoms),
    )


# Many documents have the same few.
_scope = lru_cache(maxsize=4096)(scope_value)


@lru_cache(maxsize=4096)
def _symptoms(text: str) -> tuple[str, ...]:
    return tuple(json.loads(text))


def _text(row: Any) -> IndexedText:
    return IndexedText(
        section=row.section,
        text=row.text,
        symptoms=_symptoms(row.symptoms),
        vector=np.frombuffer(row.vector, "<f4"),
    )


def _mark(symptoms: str) -> int:
    digest = blake2b(symptoms.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def _parts(values: Sequence[str]) -> Iterator[Sequence[str]]:
    return (values[start : start + AT_ONCE] for start in range(0, len(values), AT_ONCE))
