"""From one file to the document that enters the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Protocol

from ingest import VERSION
from ingest.chunking.split import keep_whole, split
from ingest.document import read_document
from ingest.isolation.pool import Made
from ingest.scope.detect import find_scope, refine
from ingest.scope.overrides import Rules
from ingest.sources.file_stat import stamp
from ingest.sources.files import FoundFile, read_bytes
from kb.errors import RecordError
from kb.store.tables import NewDocument, Piece
from kb.tokens import count_tokens


class Reads(Protocol):
    """Turns files into passages."""

    def read(self, found: FoundFile) -> Made:
        """Read one file.

        Raises:
            RecordError: it cannot be read; the message is the reason.
        """
        ...


class Trusting:
    """Reads in this process: for the records that come with `kb` or that it wrote itself."""

    def read(self, found: FoundFile) -> Made:
        """Read one file."""
        reading = read_document(read_bytes(found.path), found.shown)
        return Made(reading=reading, pieces=split(reading.sections, count_tokens))


def make_entry(
    found: FoundFile, key: str, digest: str, rules: Rules, reader: Reads
) -> NewDocument | None:
    """Read one file; None where its bytes are those of `digest`.

    Raises:
        RecordError: it cannot be read; the message is the reason.
    """
    # Before the bytes: a file that is written meanwhile is read again by the next run.
    now = stamp_of(found)
    hashed = digest_of(found)
    if hashed == digest:
        return None
    try:
        made = reader.read(found)
    except RecordError as error:
        raise RecordError(str(error).removeprefix(f"{found.shown}: ")) from error
    entry = NewDocument(
        key=key,
        shown=found.shown,
        digest=hashed,
        stamp=now,
        kind=made.reading.kind,
        name=found.path.stem,
        title=made.reading.title,
        body=made.reading.body,
        record=made.reading.record,
        symptoms=made.reading.symptoms,
    )
    return _scoped(entry, made, rules)


def digest_of(found: FoundFile) -> str:
    """Return the hash of a document's bytes and of the version of the readers.

    Raises:
        RecordError: it cannot be read; the message is the reason.
    """
    hashed = blake2b(VERSION.encode(), digest_size=16)
    hashed.update(read_bytes(found.path))
    return hashed.hexdigest()


def stamp_of(found: FoundFile) -> str:
    """Return the stamp of a file; none for one that lies in a temporary folder."""
    return "" if found.key else stamp(found.path)


def _scoped(entry: NewDocument, made: Made, rules: Rules) -> NewDocument:
    """Return `entry` with its passages, and where all of it applies."""
    found = find_scope(made.reading, entry.shown)
    whole = rules.apply(entry.key, entry.shown, None, found.scope)
    pieces = []
    for piece in made.pieces:
        own = refine(made.reading, found, piece.section, piece.text)
        scope = rules.apply(entry.key, entry.shown, piece.section, (own or found).scope)
        pieces.append(replace(piece, found=own, scope=None if scope == whole else scope))
    if made.reading.kind == "document" and not any(one.found or one.flags for one in pieces):
        # Sections that apply elsewhere, or that speak to a model, stay apart.
        together = keep_whole(made.reading.sections, count_tokens)
        pieces = [replace(together, scope=pieces[0].scope)] if together is not None else pieces
    pieces = _with_asked(_without_copies(pieces), made.reading.asked)
    return replace(entry, found=found, scope=whole, pieces=tuple(pieces))


def _without_copies(pieces: list[Piece]) -> list[Piece]:
    """Leave out what has the same words under the same heading, as repeated notices have."""
    kept = {(piece.section, piece.text): piece for piece in reversed(pieces)}
    return list(reversed(kept.values()))


def _with_asked(pieces: list[Piece], asked: Mapping[str, tuple[str, ...]]) -> list[Piece]:
    """Give other words to the passage where a reader who asks by them should begin."""
    if not pieces:
        return pieces
    for heading, phrases in asked.items():
        place = _first(pieces, heading)
        text = "\n".join(phrases)
        pieces[place] = replace(pieces[place], asked=(*pieces[place].asked, text))
    return pieces


def _first(pieces: Sequence[Piece], heading: str) -> int:
    """Return the first passage under a heading; tiny sections carry theirs in the text."""
    for place, piece in enumerate(pieces):
        under = heading in piece.section.split(" > ")[1:] or f"**{heading}**" in piece.text
        if heading and under:
            return place
    return 0
