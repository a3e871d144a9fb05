"""From a file's bytes to its sections, by the reader of its suffix."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import PurePosixPath

from ingest.readers import (
    BYTES_READERS,
    READERS,
    BytesReader,
    ParsedFile,
    Reader,
    Section,
    suffixes,
)
from kb.errors import RecordError


def read_document(data: bytes, path: str) -> ParsedFile:
    """Read one file; `path` says which reader takes it, and is for names and messages.

    Takes and gives plain values only, so that it can run in a process of its own.

    Raises:
        RecordError: nothing reads such a file, or it is not what its suffix says.
    """
    name = suffixes().get(PurePosixPath(path).suffix.lower())
    if name is None:
        raise RecordError(f"{path}: no reader for it: known are {' '.join(suffixes())}")
    if name in BYTES_READERS.paths():
        return _storable(_bytes_reader(name).read(data, path))
    return _storable(_reader(name).read(decode(data), path))


def decode(data: bytes) -> str:
    """Return the text of a file, its line ends made alike.

    Raises:
        RecordError: it is no UTF-8 text, or empty; the message is the reason.
    """
    if b"\0" in data:
        raise RecordError("expected text, found a binary file: leave it out or convert it")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RecordError(
            f"expected UTF-8 text, found byte {data[error.start]:#04x} at {error.start}: convert it"
        ) from error
    if not text.strip():
        raise RecordError("expected text, found an empty file: write something into it")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _storable(read: ParsedFile) -> ParsedFile:
    """Return what was read without zeros, which no text of PostgreSQL holds.

    They come as escapes in front matter, and in the titles and the outline of a PDF.
    """
    return replace(
        read,
        title=_visible(read.title),
        body=_visible(read.body),
        sections=tuple(
            Section(
                trail=tuple(map(_visible, one.trail)),
                blocks=tuple(
                    replace(block, text=_visible(block.text)) if "\0" in block.text else block
                    for block in one.blocks
                ),
            )
            for one in read.sections
        ),
        symptoms=tuple(map(_visible, read.symptoms)),
        asked={_visible(name): tuple(map(_visible, said)) for name, said in read.asked.items()},
    )


def _visible(text: str) -> str:
    return text.replace("\0", "\ufffd")


@cache
def _reader(name: str) -> Reader:
    return READERS.create(name)


@cache
def _bytes_reader(name: str) -> BytesReader:
    return BYTES_READERS.create(name)
