"""What the knowledge base has read: the list of documents, and one of them with what it led to."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import func, or_, select

from kb.database import reading
from kb.records.types import Effect, Passage
from kb.retrieval.effect_estimate import Where
from kb.retrieval.effect_store import Effects, subject_of
from kb.store.aliases import MARK
from kb.store.tables import DocumentRow, PassageRow
from kb.store.views import plain_scope
from kb.web.sources import NotFound, Query, Sources
from kb.web.text import address
from kb.web.trials import Trial, retrievals

ROWS = 100  # of one page
LED = 200  # nodes that a document's page lists
_SHOWN = 400  # passages of one document that its page shows


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
    text, kind = query.get("q", ""), query.get("kind", "")
    mine = PassageRow.id.not_like(f"%{MARK}%")
    wanted = [
        or_(
            DocumentRow.shown.icontains(word, autoescape=True),
            DocumentRow.title.icontains(word, autoescape=True),
        )
        for word in text.split()[:8]
    ]
    if kind:
        wanted.append(DocumentRow.kind == kind)
    counted = (
        select(
            PassageRow.document_id.label("of"),
            func.count().label("passages"),
            func.sum(PassageRow.tokens).label("tokens"),
        )
        .where(mine)
        .group_by(PassageRow.document_id)
        .subquery()
    )
    columns = (
        DocumentRow.id,
        DocumentRow.shown,
        DocumentRow.kind,
        DocumentRow.title,
        DocumentRow.ingested,
    )
    with reading(sources.reader) as session:
        matching = session.scalar(select(func.count()).select_from(DocumentRow).where(*wanted)) or 0
        pages = 1 if rows is None else max(1, -(-matching // rows))
        asked = query.get("page", "1")
        page = min(max(int(asked) if asked.isdecimal() and len(asked) < 9 else 1, 1), pages)
        listed = (
            select(*columns, counted.c.passages, counted.c.tokens)
            .outerjoin(counted, counted.c.of == DocumentRow.id)
            .where(*wanted)
            .order_by(DocumentRow.shown, DocumentRow.id)
        )
        if rows is not None:
            listed = listed.limit(rows).offset((page - 1) * rows)
        found = session.execute(listed).all()
        kinds = session.execute(
            select(DocumentRow.kind, func.count())
            .group_by(DocumentRow.kind)
            .order_by(func.count().desc())
        ).all()
        flagged_of = dict(
            session.execute(
                select(PassageRow.document_id, func.count())
                .where(PassageRow.flags != "", mine)
                .group_by(PassageRow.document_id)
            ).all()
        )
    stats = sources.store.stats()
    return Documents(
        rows=tuple(
            DocumentLine(
                shown=row.shown,
                address=address(row.shown),
                kind=row.kind,
                title=row.title,
                passages=row.passages or 0,
                tokens=row.tokens or 0,
                flagged=flagged_of.get(row.id, 0),
                ingested=row.ingested,
            )
            for row in found
        ),
        matching=matching,
        page=page,
        pages=pages,
        text=text,
        kind=kind,
        kinds={row[0]: row[1] for row in kinds},
        documents=stats["documents"],
        passages=stats["passages"],
        tokens=stats["tokens"],
        pending=stats["pending"],
        flagged=sum(flagged_of.values()),
    )


def document(sources: Sources, address_of: str) -> DocumentView:
    """Return a document by its address.

    Raises:
        NotFound: there is none.
    """
    key = sources.addresses.key(address_of)
    found = sources.store.shelved(key)
    with reading(sources.reader) as session:
        row = session.execute(
            select(
                DocumentRow.body, DocumentRow.ingested, DocumentRow.name, DocumentRow.record
            ).where(DocumentRow.key == key)
        ).one_or_none()
    if found is None or row is None:
        raise NotFound(f"no document {address_of[:80]!r}: the list of documents has all")
    passages = [passage for passage, _ in found.passages]
    subjects = [subject_of(one.kind, one.document, one.id) for one in passages]
    effects = Effects(sources.reader, time.time()).of([found.shown, *subjects], Where())
    told = sources.trials.every()
    led = [trial for one in told for trial in one.trials if found.shown in trial.documents]
    led += [
        trial
        for one in told
        for trial in one.trials
        if found.kind == "idea" and trial.key == row.name and found.shown not in trial.documents
    ]
    led.sort(key=lambda one: (-(one.ratio or 0.0), -(one.at or 0.0)))
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
        tokens=sum(one.tokens for one in passages),
        pieces=tuple(
            PassageView(
                passage=passage,
                scope=plain_scope(passage.scope) if own is not None else {},
                reasons=() if own is None else own.reasons,
                asked=tuple(found.asked.get(passage.id, "").splitlines()),
                effect=effects.get(name) if found.kind == "document" else None,
            )
            for (passage, own), name in list(zip(found.passages, subjects, strict=True))[:_SHOWN]
        ),
        more=max(0, len(passages) - _SHOWN),
        idea=address(row.name) if found.kind == "idea" else None,
        effect=effects.get(found.shown),
        retrieved=sum(name == found.shown for name, _ in retrievals(told)),
        led=tuple(led[:LED]),
        others=max(0, len(led) - LED),
        fates=Counter(one.fate for one in led if not one.again),
    )
