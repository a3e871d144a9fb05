"""From files to documents in the store: what changed is read, what is gone is removed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from ingest import VERSION
from ingest.files import Found, find, read_text
from ingest.readers import READERS, SUFFIXES, Reader
from ingest.split import split
from kb.errors import RecordError
from kb.progress import Progress, silent
from kb.records import split_front_matter
from kb.store import Entry, Store
from kb.tokens import count_tokens


@dataclass(kw_only=True)
class Report:
    """What became of each file, by the name that quotations use."""

    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)  # not changed since it was read
    refused: list[tuple[str, str]] = field(default_factory=list)  # with the reason

    def line(self) -> str:
        """Return the counts in one line."""
        return ", ".join(f"{len(names)} {what}" for what, names in vars(self).items())

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; a refused file is an object with its reason."""
        plain = asdict(self)
        plain["refused"] = [{"document": name, "reason": why} for name, why in self.refused]
        return plain


def ingest(
    paths: Sequence[Path],
    store: Store,
    *,
    label: str | None = None,
    progress: Progress = silent,
) -> Report:
    """Bring the documents of `store` in step with the files below `paths`.

    Each document is one transaction: what was read before an interruption stays, and the next
    run goes on. The passages are embedded when the knowledge base is next asked or refreshed.

    Args:
        label: for a folder of records that may move, as the shipped one: its documents are called
            ``label:path``, and files in it that are no records are passed over. One folder then.

    Raises:
        StoreError: the store cannot be written.
    """
    report = Report()
    seen: set[str] = set()
    roots = [Path(path).expanduser() for path in paths]
    found = [one for one in find(roots) if label is None or _is_record(one)]
    known = _known(store, roots, label)
    for number, one in enumerate(found):
        progress("reading documents", number, len(found))
        key, shown = _identity(one, roots[0], label)
        digest, _ = known.get(key, (None, ""))
        seen.add(key)
        try:
            entry = _entry(one, key, shown, digest)
        except RecordError as error:
            if not one.path.exists() and digest is not None:
                seen.discard(key)  # asked for by its own path, known, and gone
            else:
                report.refused.append((shown, str(error)))
            continue
        if entry is None or not store.put(entry):
            report.skipped.append(shown)
        else:
            (report.added if digest is None else report.changed).append(shown)
    progress("reading documents", len(found), len(found))
    _remove_gone(store, known, seen, [one.path for one in found if one.reason], report)
    return report


def _entry(found: Found, key: str, shown: str, digest: str | None) -> Entry | None:
    """Read one file; None where its bytes are those of `digest`."""
    if found.reason is not None:
        raise RecordError(found.reason)
    data, text = read_text(found.path)
    now = blake2b(VERSION.encode() + data, digest_size=16).hexdigest()
    if now == digest:
        return None
    try:
        reading = _reader(SUFFIXES[found.path.suffix.lower()]).read(text, shown)
    except RecordError as error:
        raise RecordError(str(error).removeprefix(f"{shown}: ")) from error
    return Entry(
        key=key,
        shown=shown,
        digest=now,
        kind=reading.kind,
        name=found.path.stem,
        title=reading.title,
        body=reading.body,
        record=reading.record,
        scope=reading.scope,
        symptoms=reading.symptoms,
        pieces=split(reading.sections, count_tokens),
    )


@cache
def _reader(name: str) -> Reader:
    return READERS.create(name)


def _identity(found: Found, root: Path, label: str | None) -> tuple[str, str]:
    """Return the key of a file in the store, and what quotations call it."""
    if label is None:
        return found.path.as_posix(), found.shown
    key = f"{label}:{found.path.relative_to(root.resolve()).as_posix()}"
    return key, key


def _known(store: Store, roots: Sequence[Path], label: str | None) -> dict[str, tuple[str, str]]:
    """Return what the store has of these roots: key -> (digest, shown)."""
    if label is not None:
        return store.manifest(f"{label}:")
    known: dict[str, tuple[str, str]] = {}
    for root in roots:
        place = root.resolve().as_posix()
        below = store.manifest(place.rstrip("/") + "/") if root.is_dir() else store.manifest(place)
        known.update((key, row) for key, row in below.items() if root.is_dir() or key == place)
    return known


def _remove_gone(
    store: Store,
    known: dict[str, tuple[str, str]],
    seen: set[str],
    refused: Sequence[Path],
    report: Report,
) -> None:
    """Remove what has no file any more; what lies below a folder that cannot be listed stays."""
    closed = tuple(f"{path.as_posix()}/" for path in refused)
    gone = [key for key in known if key not in seen and not key.startswith(closed)]
    store.remove(gone)
    report.removed.extend(known[key][1] for key in gone)


def _is_record(found: Found) -> bool:
    if found.reason is not None:
        return found.path.suffix.lower() == ".md"
    if SUFFIXES[found.path.suffix.lower()] != "markdown":
        return False
    try:
        return split_front_matter(read_text(found.path)[1])[0] is not None
    except RecordError:
        return True  # to be refused with its reason
