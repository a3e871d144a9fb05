"""From files to documents in the store: what changed is read, what is gone is removed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ingest.confine import Confined
from ingest.corrections import NO_RULES, Rules
from ingest.files import Found, find, read_text
from ingest.prepare import Reads, Trusting, make_entry, stamp_of
from ingest.readers import SUFFIXES
from ingest.report import Report
from kb.errors import RecordError
from kb.progress import Progress, silent
from kb.records import split_front_matter
from kb.store import Entry, Store

__all__ = ["Gone", "Looked", "Report", "ingest", "look"]

STAMPS_AT_ONCE = 1000  # stamps kept in one transaction


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
    entry: Entry | None = None
    stamp: str = ""
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """A document of the store whose file is not there any more."""

    key: str
    shown: str


def ingest(
    paths: Sequence[Path],
    store: Store,
    *,
    label: str | None = None,
    rules: Rules = NO_RULES,
    report: Report | None = None,
    progress: Progress = silent,
) -> Report:
    """Bring the documents of `store` in step with the files below `paths`.

    Each document is one transaction: what was read before an interruption stays, and the next
    run goes on. The passages are embedded when the knowledge base is next asked or refreshed.

    Args:
        label: for a folder of records that may move, as the shipped one: its documents are called
            ``label:path``, and files in it that are no records are passed over. One folder then.
        rules: the user's corrections of scopes.
        report: filled while documents are read, for whoever wants it after an interruption too.

    Raises:
        StoreError: the store cannot be written.
    """
    report = Report() if report is None else report
    gone: list[str] = []
    stamps: dict[str, str] = {}
    for one in look(paths, store, label=label, rules=rules, progress=progress):
        if isinstance(one, Gone):
            gone.append(one.key)
            report.removed.append(one.shown)
        elif one.reason is not None:
            report.refused.append((one.shown, one.reason))
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
    paths: Sequence[Path],
    store: Store,
    *,
    label: str | None = None,
    rules: Rules = NO_RULES,
    progress: Progress = silent,
) -> Iterator[Looked | Gone]:
    """Read what changed below `paths` and yield it, file by file, writing nothing.

    What is in the store and has no file any more comes last.
    """
    roots = [Path(path).expanduser() for path in paths]
    found = list(find(roots) if label is None else _records(roots[0], label))
    known = _known(store, roots, label)
    seen: set[str] = set()
    with Confined() as confined:
        reader = confined if label is None else Trusting()
        for number, one in enumerate(found):
            progress("reading documents", number, len(found))
            key = one.identity if label is None else one.shown
            seen.add(key)
            looked = _look(one, key, known.get(key), rules, reader)
            if looked.reason is not None and looked.known and not one.path.exists():
                seen.discard(key)  # asked for by its own path, known, and gone
            else:
                yield looked
    progress("reading documents", len(found), len(found))
    # What lies below a folder that cannot be listed stays.
    closed = tuple(f"{one.path.as_posix()}/" for one in found if one.reason)
    for key, row in known.items():
        if key not in seen and not key.startswith(closed):
            yield Gone(key=key, shown=row.shown)


@dataclass(frozen=True, slots=True)
class _Known:
    digest: str
    shown: str
    stamp: str


def _look(found: Found, key: str, known: _Known | None, rules: Rules, reader: Reads) -> Looked:
    shown, there = found.shown, known is not None
    if found.reason is not None:
        return Looked(key=key, shown=shown, known=there, reason=found.reason)
    now = stamp_of(found)
    if known is not None and now and now == known.stamp:
        return Looked(key=key, shown=shown, known=True)
    try:
        entry = make_entry(found, key, "" if known is None else known.digest, rules, reader)
    except RecordError as error:
        return Looked(key=key, shown=shown, known=there, reason=str(error))
    if entry is None:
        return Looked(key=key, shown=shown, known=True, stamp=now)
    return Looked(key=key, shown=shown, known=there, entry=entry)


def _put(store: Store, one: Looked, entry: Entry, report: Report) -> None:
    change = store.put(entry)
    if change is None:  # another process stored the same bytes meanwhile
        report.skipped.append(one.shown)
        return
    (report.changed if one.known else report.added).append(one.shown)
    report.passages[one.shown] = change


def _records(root: Path, label: str) -> Iterator[Found]:
    """Yield the records of a folder that may move, called by its label."""
    real = root.resolve()
    for one in find([root]):
        if _is_record(one):
            name = f"{label}:{one.path.relative_to(real).as_posix()}"
            yield replace(one, shown=name, key="")


def _known(store: Store, roots: Sequence[Path], label: str | None) -> dict[str, _Known]:
    """Return what the store has of these roots by key."""
    if label is not None:
        return _listed(store, f"{label}:")
    known: dict[str, _Known] = {}
    for root in roots:
        place = root.resolve().as_posix()
        if root.is_dir():
            known.update(_listed(store, place.rstrip("/") + "/"))
        else:
            below = _listed(store, place)
            known.update((key, row) for key, row in below.items() if key == place)
    return known


def _listed(store: Store, prefix: str) -> dict[str, _Known]:
    stamps = store.stamps(prefix)
    return {
        key: _Known(digest, shown, stamps.get(key, ""))
        for key, (digest, shown) in store.manifest(prefix).items()
    }


def _is_record(found: Found) -> bool:
    if found.reason is not None:
        return found.path.suffix.lower() == ".md"
    if SUFFIXES[found.path.suffix.lower()] != "markdown":
        return False
    try:
        return split_front_matter(read_text(found.path)[1])[0] is not None
    except RecordError:
        return True  # to be refused with its reason
