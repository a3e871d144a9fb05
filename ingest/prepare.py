"""From one file to the document that enters the store."""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b

from ingest import VERSION
from ingest.corrections import Rules
from ingest.document import read_document
from ingest.files import Found, read_bytes
from ingest.readers import Reading
from ingest.scope import find_scope, refine
from ingest.split import split
from ingest.stamps import stamp
from kb.errors import RecordError
from kb.rows import Entry, Piece
from kb.tokens import count_tokens


def make_entry(found: Found, key: str, shown: str, digest: str, rules: Rules) -> Entry | None:
    """Read one file; None where its bytes are those of `digest`.

    Raises:
        RecordError: it cannot be read; the message is the reason.
    """
    # Before the bytes: a file that is written meanwhile is read again by the next run.
    now = "" if found.key else stamp(found.parts)
    parts = [read_bytes(path) for path in found.parts]
    hashed = blake2b(VERSION.encode(), digest_size=16)
    for part in parts:
        hashed.update(part)
    if hashed.hexdigest() == digest:
        return None
    try:
        reading = read_document(parts[0], shown)
    except RecordError as error:
        raise RecordError(str(error).removeprefix(f"{shown}: ")) from error
    return _entry(found, reading, rules, (key, shown, hashed.hexdigest(), now))


def _entry(found: Found, reading: Reading, rules: Rules, names: tuple[str, str, str, str]) -> Entry:
    key, shown, digest, now = names
    scope = find_scope(reading, shown)
    in_force = rules.apply(key, shown, None, scope.scope)
    pieces = []
    for piece in split(reading.sections, count_tokens):
        own = refine(reading, scope, piece.section)
        corrected = rules.apply(key, shown, piece.section, (own or scope).scope)
        pieces.append(replace(piece, found=own, scope=None if corrected == in_force else corrected))
    return Entry(
        key=key,
        shown=shown,
        digest=digest,
        stamp=now,
        kind=reading.kind,
        name=found.path.stem,
        title=reading.title,
        body=reading.body,
        record=reading.record,
        scope=in_force,
        found=scope,
        symptoms=reading.symptoms,
        pieces=_without_copies(pieces),
    )


def _without_copies(pieces: list[Piece]) -> tuple[Piece, ...]:
    """Leave out what has the same words under the same heading, as repeated notices have."""
    kept = {(piece.section, piece.text): piece for piece in reversed(pieces)}
    return tuple(reversed(kept.values()))
