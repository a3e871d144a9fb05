"""What the knowledge base has read: the list of documents, and one of them with what it led to."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, func, or_, select
from sqlalchemy.orm import Session

from kb.database import reading
from kb.records.types import Effect, Passage
from kb.retrieval.effect_estimate import Where
from kb.retrieval.effect_store import Effects, subject_of
from kb.store.aliases import MARK
from kb.store.tables import DocumentRow, PassageRow
from kb.store.views import Shelved, plain_scope
from kb.web.sources import NotFound, Query, Sources
from kb.web.text import address
from kb.web.trials import Told, Trial, retrievals
from kb.web.views.home import page_of

ROWS = 100  # of one page
LED = 200  # nodes that a document's page lists
_SHOWN = 400  # passages of one document that its page shows
_WORDS = 8  # of a question for documents that are looked for
_OTHER_WORDS = f"%{MARK}%"  # rows that hold other words for a passage


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentLine:
    """A document of the list.

    Attributes:
        flagged: passages that speak to a model instead of their reader.
        ingested: seconds since the epoch.
    """

    shown: str
    address: str
    kind: str
    title: str
    passages: int
    tokens: int
    flagged: int
    ingested: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Documents:
    """The documents that are asked for, and what was read in all.

    Attributes:
        kinds: documents by kind.
        pending: passages that wait for a vector.
    """

    rows: tuple[DocumentLine, ...]
    matching: int
    page: int
    pages: int
    text: str
    kind: str
    kinds: Mapping[str, int]
    documents: int
    passages: int
    tokens: int
    pending: int
    flagged: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PassageView:
    """A passage of a document.

    Attributes:
        reasons: why it applies where it does, where that is another place than its document's.
        asked: other words by which it is found.
        effect: what its use gained, None where nothing was measured.
    """

    passage: Passage
    scope: Mapping[str, Sequence[str]]
    reasons: tuple[str, ...]
    asked: tuple[str, ...]
    effect: Effect | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentView:
    """A document with its passages and the kernels that it led to.

    Attributes:
        scope: where it applies; `reasons` say why.
        idea: address of its history, where it is the record of an idea.
        effect: of the record as a whole.
        retrieved: requests for ideas that it was returned to, in the runs shown here.
        led: implementations that rest on it, the largest gain first; `others` more are not listed.
    """

    shown: str
    address: str
    key: str
    kind: str
    title: str
    body: str
    ingested: float
    scope: Mapping[str, Sequence[str]]
    reasons: tuple[str, ...]
    tokens: int
    pieces: tuple[PassageView, ...]
    more: int
    idea: str | None
    effect: Effect | None
    retrieved: int
    led: tuple[Trial, ...]
    others: int
    fates: Mapping[str, int]


def documents(sources: Sources, query: Query, rows: int | None = ROWS) -> Documents:
    """Return the documents that a query asks for, by name."""
    wanted = _wanted(query)
    with reading(sources.reader) as session:
        matching = session.scalar(select(func.count()).select_from(DocumentRow).where(*wanted)) or 0
        page, pages = page_of(query, matching, rows)
        listed = _listed(wanted)
        if rows is not None:
            listed = listed.limit(rows).offset((page - 1) * rows)
        found = session.execute(listed).all()
        flagged = _flagged(session)
        kinds = session.execute(
            select(DocumentRow.kind, func.count())
            .group_by(DocumentRow.kind)
            .order_by(func.count().desc(), DocumentRow.kind)
        ).all()
    return Documents(
        rows=tuple(_row(row, flagged.get(row.id, 0)) for row in found),
        matching=matching,
        page=page,
        pages=pages,
        text=query.get("q", ""),
        kind=query.get("kind", ""),
        kinds={row[0]: row[1] for row in kinds},
        flagged=sum(flagged.values()),
        **sources.store.stats(),
    )


def _wanted(query: Query) -> list[ColumnElement[bool]]:
    """Return what a document must be: of a kind, and with each word in its name or title."""
    found = [
        or_(
            DocumentRow.shown.icontains(word, autoescape=True),
            DocumentRow.title.icontains(word, autoescape=True),
        )
        for word in query.get("q", "").split()[:_WORDS]
    ]
    kind = query.get("kind", "")
    return [*found, DocumentRow.kind == kind] if kind else found


def _listed(wanted: Sequence[ColumnElement[bool]]) -> Select[Any]:
    """Return the query of the list: documents with how many passages and tokens each has."""
    counted = (
        select(
            PassageRow.document_id.label("of"),
            func.count().label("passages"),
            func.sum(PassageRow.tokens).label("tokens"),
        )
        .where(PassageRow.id.not_like(_OTHER_WORDS))
        .group_by(PassageRow.document_id)
        .subquery()
    )
    told = ("id", "shown", "kind", "title", "ingested")
    return (
        select(*(getattr(DocumentRow, name) for name in told), counted.c.passages, counted.c.tokens)
        .outerjoin(counted, counted.c.of == DocumentRow.id)
        .where(*wanted)
        .order_by(DocumentRow.shown, DocumentRow.id)
    )


def _flagged(session: Session) -> dict[int, int]:
    """Return by document how many of its passages are flagged."""
    query = (
        select(PassageRow.document_id, func.count())
        .where(PassageRow.flags != "", PassageRow.id.not_like(_OTHER_WORDS))
        .group_by(PassageRow.document_id)
    )
    return {row[0]: row[1] for row in session.execute(query)}


def _row(row: Any, flagged: int) -> DocumentLine:
    return DocumentLine(
        shown=row.shown,
        address=address(row.shown),
        kind=row.kind,
        title=row.title,
        passages=row.passages or 0,
        tokens=row.tokens or 0,
        flagged=flagged,
        ingested=row.ingested,
    )


def document(sources: Sources, address_of: str) -> DocumentView:
    """Return a document by its address.

    Raises:
        NotFound: there is none.
    """
    key = sources.addresses.key(address_of)
    found = sources.store.shelved(key)
    columns = (DocumentRow.body, DocumentRow.ingested, DocumentRow.name)
    with reading(sources.reader) as session:
        row = session.execute(select(*columns).where(DocumentRow.key == key)).one_or_none()
    if found is None or row is None:
        raise NotFound(f"no document {address_of[:80]!r}: the list of documents has all")
    told = sources.trials.every()
    led = _led(told, found, row.name)
    subjects = [subject_of(one.kind, one.document, one.id) for one, _ in found.passages]
    effects = Effects(sources.reader, time.time()).of([found.shown, *subjects], Where())
    return DocumentView(
        shown=found.shown,
        address=address(found.shown),
        key=key,
        kind=found.kind,
        title=found.title,
        body=row.body,
        ingested=row.ingested,
        scope=plain_scope(found.scope),
        reasons=found.found.reasons,
        tokens=sum(one.tokens for one, _ in found.passages),
        pieces=tuple(_pieces(found, effects)),
        more=max(0, len(found.passages) - _SHOWN),
        idea=address(row.name) if found.kind == "idea" else None,
        effect=effects.get(found.shown),
        retrieved=sum(name == found.shown for name, _ in retrievals(told)),
        led=tuple(led[:LED]),
        others=max(0, len(led) - LED),
        fates=Counter(one.fate for one in led if not one.again),
    )


def _led(told: Sequence[Told], found: Shelved, name: str) -> list[Trial]:
    """Return the implementations that rest on a document, or try the idea that it records."""
    led = [
        trial
        for one in told
        for trial in one.trials
        if found.shown in trial.documents or (found.kind == "idea" and trial.key == name)
    ]
    return sorted(led, key=lambda one: (-(one.ratio or 0.0), -(one.at or 0.0)))


def _pieces(found: Shelved, effects: Mapping[str, Effect]) -> Iterator[PassageView]:
    for passage, own in found.passages[:_SHOWN]:
        yield PassageView(
            passage=passage,
            scope=plain_scope(passage.scope) if own is not None else {},
            reasons=() if own is None else own.reasons,
            asked=tuple(found.asked.get(passage.id, "").splitlines()),
            # Of a record the whole is credited, and told once at its top.
            effect=effects.get(passage.id) if found.kind == "document" else None,
        )
