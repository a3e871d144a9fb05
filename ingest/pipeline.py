"""From files to documents in the store: what changed is read, what is gone is removed."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from ingest.collect import Source, gathered, named, reach
from ingest.document_names import DocumentNames
from ingest.entry import Reads, Trusting, make_entry, stamp_of
from ingest.isolation.pool import Confined
from ingest.readers import suffixes
from ingest.report import Report
from ingest.scope.overrides import NO_RULES, Rules
from ingest.sources.files import FoundFile, find, read_text
from kb.errors import RecordError
from kb.progress import Progress, silent
from kb.records.front_matter import split_front_matter
from kb.store.documents import NameTaken, NewDocument, Store

__all__ = ["Gone", "IngestOptions", "Looked", "Report", "ingest", "look"]

STAMPS_AT_ONCE = 1000  # stamps kept in one transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestOptions:
    """On what terms documents are taken in.

    Attributes:
        rules: the user's corrections of scopes.
        desk: where they are parsed; a process of its own, for this once, where there is none.
    """

    rules: Rules = NO_RULES
    desk: Confined | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """What one file turned out to be.

    Attributes:
        known: an older version of it is in the store.
        entry: what it says now; None where it did not change, or is refused.
        stamp: a new stamp of what did not change; empty where the old one holds.
        reason: why it is refused.
    """

    key: str
    shown: str
    known: bool
    entry: NewDocument | None = None
    stamp: str = ""
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """A document of the store whose file is not there any more."""

    key: str
    shown: str


def ingest(
    sources: Sequence[Source],
    store: Store,
    *,
    label: str | None = None,
    terms: IngestOptions = IngestOptions(),
    report: Report | None = None,
    progress: Progress = silent,
) -> Report:
    """Bring the documents of `store` in step with files, folders, globs or archives.

    Each document is one transaction: what was read before an interruption stays, and the next
    run goes on. The passages are embedded when the knowledge base is next asked or refreshed.

    Args:
        label: for a folder of records that may move, as the shipped one: its documents are called
            ``label:path``, and files in it that are no records are passed over. One folder then.
        report: filled while documents are read, for whoever wants it after an interruption too.

    Raises:
        StoreError: the store cannot be written.
    """
    report = Report() if report is None else report
    gone: list[str] = []
    stamps: dict[str, str] = {}
    asked = named(sources)
    for one in look(sources, store, label=label, terms=terms, progress=progress):
        if isinstance(one, Gone):
            gone.append(one.key)
            report.removed.append(one.shown)
        elif one.reason is not None:
            report.refused.append((one.shown, one.reason))
            if one.key in asked:
                report.unread.append(one.shown)
        elif one.entry is None:
            report.skipped.append(one.shown)
            if one.stamp:
                stamps[one.key] = one.stamp
            if len(stamps) >= STAMPS_AT_ONCE:
                store.stamp(stamps)
                stamps = {}
        else:
            _put(store, one, one.entry, report)
    store.stamp(stamps)
    store.remove(gone)
    return report


def look(
    sources: Sequence[Source],
    store: Store,
    *,
    label: str | None = None,
    terms: IngestOptions = IngestOptions(),
    progress: Progress = silent,
) -> Iterator[Looked | Gone]:
    """Read what changed of `sources` and yield it, document by document, writing nothing.

    What is in the store and has no file any more comes last.
    """
    with _desk(terms) as desk, _found(sources, desk, label) as listed:
        progress("looking for documents")
        found = list(listed)
        known = _known(store, sources, label)
        reader = desk if label is None else Trusting()
        keys = [one.identity if label is None else one.shown for one in found]
        kept: set[str] = set()
        names = DocumentNames({} if label else _called(store))
        looks = (
            _unchanged(one, key, known.get(key))
            or partial(_look, one, key, known.get(key), terms.rules, reader)
            for one, key in zip(found, keys, strict=True)
        )
        for number, looked in enumerate(_ahead(looks, desk)):
            progress("reading documents", number, len(found))
            one = found[number]
            if looked.reason is None or not looked.known or one.key or os.path.exists(one.path):
                kept.update((keys[number], *one.others))
                yield _named(looked, names)
            # Else it was asked for by its own path, is known, and is gone.
        progress("reading documents", len(found), len(found))
    # What lies below a folder or an archive that cannot be read stays.
    closed = tuple(f"{one.identity}{mark}" for one in found if one.reason for mark in ("/", "!/"))
    closed += () if label else _away(sources)
    for key, row in known.items():
        if key not in kept and not key.startswith(closed):
            yield Gone(key=key, shown=row.shown)


def _called(store: Store) -> dict[str, str]:
    return {key: shown for key, (_, shown) in store.manifest().items()}


def _named(one: Looked, names: DocumentNames) -> Looked:
    """Give a document that will be stored a name that no other has."""
    if one.entry is None:
        return one
    shown = names.give(one.key, one.shown)
    return replace(one, shown=shown, entry=replace(one.entry, shown=shown))


def _ahead(looks: Iterable[Looked | Callable[[], Looked]], desk: Confined) -> Iterator[Looked]:
    """Read one document ahead: while one is written to the store, the next is read."""
    coming: deque[Looked | Future[Looked]] = deque()
    try:
        for one in looks:
            coming.append(one if isinstance(one, Looked) else desk.thread.submit(one))
            if len(coming) > 1:
                yield _settled(coming.popleft())
        while coming:
            yield _settled(coming.popleft())
    except BaseException:
        desk.close()  # nobody waits for what is being read, and a manual may take minutes
        raise


def _settled(one: Looked | Future[Looked]) -> Looked:
    return one if isinstance(one, Looked) else one.result()


@contextmanager
def _desk(terms: IngestOptions) -> Iterator[Confined]:
    if terms.desk is not None:
        yield terms.desk
        return
    with Confined() as desk:
        yield desk


@contextmanager
def _found(
    sources: Sequence[Source], desk: Confined, label: str | None
) -> Iterator[Iterator[FoundFile]]:
    if label is not None:
        yield _records(Path(sources[0]), label)
        return
    with gathered(sources, desk) as found:
        yield found


@dataclass(frozen=True, slots=True)
class _Known:
    digest: str
    shown: str
    stamp: str


def _unchanged(found: FoundFile, key: str, known: _Known | None) -> Looked | None:
    """Say that a file is as it was, where its stamp tells; None where it has to be looked at."""
    if found.reason is not None or known is None or not known.stamp:
        return None
    same = stamp_of(found) == known.stamp
    return Looked(key=key, shown=found.shown, known=True) if same else None


def _look(found: FoundFile, key: str, known: _Known | None, rules: Rules, reader: Reads) -> Looked:
    shown, there = found.shown, known is not None
    if found.reason is not None:
        return Looked(key=key, shown=shown, known=there, reason=found.reason)
    now = stamp_of(found)
    try:
        entry = make_entry(found, key, "" if known is None else known.digest, rules, reader)
    except RecordError as error:
        return Looked(key=key, shown=shown, known=there, reason=str(error))
    if entry is None:
        return Looked(key=key, shown=shown, known=True, stamp=now)
    return Looked(key=key, shown=shown, known=there, entry=entry)


def _put(store: Store, one: Looked, entry: NewDocument, report: Report) -> None:
    try:
        change = store.put(entry)
    except NameTaken:  # by another process, since names were given
        again = _named(one, DocumentNames(_called(store)))
        if again.entry is None or again.shown == one.shown:
            raise
        _put(store, again, again.entry, report)
        return
    if change is None:  # another process stored the same bytes meanwhile
        report.skipped.append(one.shown)
        return
    (report.changed if one.known else report.added).append(one.shown)
    report.passages[one.shown] = change


def _records(root: Path, label: str) -> Iterator[FoundFile]:
    """Yield the records of a folder that may move, called by its label."""
    real = root.resolve()
    for one in find([root]):
        if _is_record(one):
            name = f"{label}:{one.path.relative_to(real).as_posix()}"
            yield replace(one, shown=name, key="")


def _known(store: Store, sources: Sequence[Source], label: str | None) -> dict[str, _Known]:
    """Return what the store has of these sources by key."""
    if label is not None:
        return _listed(store, f"{label}:")
    known: dict[str, _Known] = {}
    for source in sources:
        of = reach(source)
        listed = _listed(store, of.prefix)
        known.update((key, row) for key, row in listed.items() if of.holds(key))
    return known


def _away(sources: Sequence[Source]) -> tuple[str, ...]:
    """Return the folders of globs that are not there, as an unmounted disk is not."""
    folders = (reach(source).prefix for source in sources)
    return tuple(one for one in folders if one.endswith("/") and not os.path.isdir(one))


def _listed(store: Store, prefix: str) -> dict[str, _Known]:
    stamps = store.stamps(prefix)
    return {
        key: _Known(digest, shown, stamps.get(key, ""))
        for key, (digest, shown) in store.manifest(prefix).items()
    }


def _is_record(found: FoundFile) -> bool:
    if found.reason is not None:
        return found.path.suffix.lower() == ".md"
    if suffixes()[found.path.suffix.lower()] != "markdown":
        return False
    try:
        return split_front_matter(read_text(found.path)[1])[0] is not None
    except RecordError:
        return True  # to be refused with its reason
