"""What a run was given from outside itself: kept once, so that it is given the same again.

Passages that were found, bottlenecks that were measured, patterns that ask, and ideas of other runs go
into prompts. They change with the documents and with the machine; a run that is resumed or replayed must not.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import Column, Engine, LargeBinary, String, Table, delete, insert, select
from sqlalchemy.exc import IntegrityError

from kb.database import Base, create_tables, reading, writing
from kb.errors import StoreError
from kb.records.patterns import Pattern
from kb.records.schema import Document
from kb.records.types import Answer, Hit, Query, Scope
from kb.retrieval.effect_estimate import Where
from kb.retrieval.lookup import LookupResult
from kb.retrieval.multi_query import Inquiry
from search.attempt import Attempt, Diagnosis
from search.prompting.knowledge_view import RecordSource
from search.prompting.novelty import KnownIdea
from search.prompting.readings import PassageRetriever, Readings

GIVEN = Table(
    "given",
    Base.metadata,
    Column("run", String, primary_key=True),
    Column("kind", String, primary_key=True),
    Column("key", String, primary_key=True),
    Column("value", LargeBinary, nullable=False),  # JSON, compressed
)
T = TypeVar("T")
_MOST_READ = 64 << 20  # bytes of one value that are unpacked to be shown
# What goes into prompts whole, or decides where the offline author begins. Ideas are left out: they
# are most of the library, and reach prompts as passages.
_KEPT_KINDS = ("lesson", "constraint", "language")
_DOCUMENTS: TypeAdapter[tuple[Document, ...]] = TypeAdapter(tuple[Document, ...])
_HITS: TypeAdapter[tuple[Hit, ...]] = TypeAdapter(tuple[Hit, ...])
_ANSWER = TypeAdapter(Answer)
_DIAGNOSIS = TypeAdapter(Diagnosis)
_READING = TypeAdapter(LookupResult)
_PATTERNS: TypeAdapter[tuple[Pattern, ...]] = TypeAdapter(tuple[Pattern, ...])
_TRIED = TypeAdapter(tuple[KnownIdea, ...])


class RunSnapshot:
    """What one run was given.

    Args:
        run: whose record is taken up.
        writes: False leaves the record as it is.
    """

    def __init__(self, engine: Engine, run: str, *, writes: bool = True) -> None:
        self._engine = engine
        self._run = run
        self._writes = writes
        create_tables(engine)

    def once(self, kind: str, key: str, kept: TypeAdapter[T], make: Callable[[], T]) -> T:
        """Return what is on record, else what `make` returns, which is then on record."""
        place = (GIVEN.c.run == self._run) & (GIVEN.c.kind == kind) & (GIVEN.c.key == key)
        with reading(self._engine) as session:
            found = session.scalar(select(GIVEN.c.value).where(place))
        if found is not None:
            try:
                return kept.validate_json(zlib.decompress(found))
            except (ValueError, zlib.error) as error:
                raise StoreError(
                    f"run {self._run}: what it was given ({kind}) is no longer what this version reads: start it anew"
                ) from error
        made = make()
        if self._writes:
            row = {"kind": kind, "key": key, "value": zlib.compress(kept.dump_json(made))}
            try:
                with writing(self._engine) as session:
                    session.execute(insert(GIVEN).values(run=self._run, **row))
            except IntegrityError:
                return made  # another thread kept the same
        return made

    def forget(self) -> None:
        """Remove what is kept, for a run that is withdrawn."""
        with writing(self._engine) as session:
            session.execute(delete(GIVEN).where(GIVEN.c.run == self._run))

    def diagnose(
        self, diagnose: Callable[[Attempt | None], Diagnosis]
    ) -> Callable[[Attempt | None], Diagnosis]:
        """Return `diagnose`, which looks at each node once in the life of a run."""
        seen: dict[str, Diagnosis] = {}

        def once(attempt: Attempt | None) -> Diagnosis:
            key = "reference" if attempt is None else str(attempt.number)
            if key not in seen:
                seen[key] = self.once("diagnosis", key, _DIAGNOSIS, lambda: diagnose(attempt))
            return seen[key]

        return once

    def earlier(self, tried: tuple[KnownIdea, ...]) -> tuple[KnownIdea, ...]:
        """Return the ideas of other runs that this run knew of when it began."""
        return self.once("earlier", "", _TRIED, lambda: tried)

    def patterns(self, load: Callable[[], tuple[Pattern, ...]]) -> tuple[Pattern, ...]:
        """Return the patterns that were there when this run first asked."""
        return self.once("patterns", "", _PATTERNS, load)

    def records(self, inner: RecordSource) -> RecordSource:
        """Return `inner` as it was when the run first asked."""
        return _KeptRecords(inner, self)

    def retriever(self, inner: PassageRetriever) -> PassageRetriever:
        """Return `inner`, which answers each query once in the life of a run."""
        return _Kept(inner, self)

    def readings(self, inner: Readings) -> Readings:
        """Return `inner`, which reads each name once in the life of a run."""
        return _KeptReadings(inner, self)


class _KeptRecords:
    def __init__(self, inner: RecordSource, given: RunSnapshot) -> None:
        self._inner = inner
        self._given = given
        self._seen: dict[str, tuple[Document, ...]] = {}

    def document(self, kind: str, name: str) -> Document | None:
        """Return one record."""
        if kind not in _KEPT_KINDS:
            return self._inner.document(kind, name)
        return next((one for one in self.documents(kind) if one.name == name), None)

    def documents(self, kind: str) -> list[Document]:
        """Return every record of a kind, by name."""
        if kind not in _KEPT_KINDS:
            return self._inner.documents(kind)
        if kind not in self._seen:

            def read() -> tuple[Document, ...]:
                return tuple(self._inner.documents(kind))

            self._seen[kind] = self._given.once("documents", kind, _DOCUMENTS, read)
        return list(self._seen[kind])


class _KeptReadings:
    def __init__(self, inner: Readings, given: RunSnapshot) -> None:
        self._inner = inner
        self._given = given

    def read(self, name: str) -> LookupResult:
        """Return what was read when the run first asked."""
        return self._once(partial(self._inner.read, name), "read", name)

    def module(
        self, name: str, scope: Scope | None = None, first: Sequence[str] = ()
    ) -> LookupResult:
        """Return the page as it was when the run first asked."""
        place = None if scope is None else asdict(scope)
        make = partial(self._inner.module, name, scope, first)
        return self._once(make, "module", name, place, list(first))

    def history(self, name: str, where: Where | None = None) -> LookupResult:
        """Return what was gained when the run first asked."""
        place = None if where is None else asdict(where)
        return self._once(partial(self._inner.history, name, where), "history", name, place)

    def _once(self, make: Callable[[], LookupResult], *asked: object) -> LookupResult:
        return self._given.once("reading", _digest(asked), _READING, make)


class _Kept:
    def __init__(self, inner: PassageRetriever, given: RunSnapshot) -> None:
        self._inner = inner
        self._given = given

    def search(self, query: Query) -> list[Hit]:
        """Return what was found for `query` when the run first asked."""
        key = _digest(asdict(query))

        def ask() -> tuple[Hit, ...]:
            return tuple(self._inner.search(query))

        found = self._given.once("hits", key, _HITS, ask)
        return list(found)

    def inquire(self, inquiry: Inquiry) -> Answer:
        """Return what was found for `inquiry` when the run first asked."""
        return self._given.once(
            "answers", _digest(asdict(inquiry)), _ANSWER, lambda: self._inner.inquire(inquiry)
        )


def read_diagnoses(engine: Engine, runs: Sequence[str]) -> dict[str, dict[str, Diagnosis]]:
    """Return by run how it diagnosed its programs: by a node's number, or ``reference``."""
    found: dict[str, dict[str, Diagnosis]] = {}
    for row in _read(engine, runs, ("diagnosis",)):
        told = _believed(_DIAGNOSIS, row.value)
        if told is not None:
            found.setdefault(row.run, {})[row.key] = told
    return found


def read_hits(engine: Engine, run: str) -> Iterator[Hit]:
    """Yield the passages that a run was given, as they stood when it first asked."""
    for row in _read(engine, [run], ("hits", "answers")):
        if row.kind == "hits":
            yield from _believed(_HITS, row.value) or ()
        else:
            answer = _believed(_ANSWER, row.value)
            yield from () if answer is None else answer.hits


def _read(engine: Engine, runs: Sequence[str], kinds: Sequence[str]) -> Sequence[Any]:
    query = select(GIVEN).where(GIVEN.c.run.in_(runs), GIVEN.c.kind.in_(kinds))
    with reading(engine) as session:
        return session.execute(query).all()


def _believed(kept: TypeAdapter[T], value: bytes) -> T | None:
    """Return a value that is only looked at; None for one that another record wrote and nobody can read."""
    try:
        # It may unpack to anything.
        return kept.validate_json(zlib.decompressobj().decompress(value, _MOST_READ))
    except (ValidationError, zlib.error):
        return None


def _digest(asked: object) -> str:
    text = json.dumps(asked, sort_keys=True, default=_plain)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _plain(value: Any) -> Any:
    return sorted(value) if isinstance(value, set | frozenset) else dict(value)
