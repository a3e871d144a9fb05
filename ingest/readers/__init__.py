"""What makes sections of a file's text, by suffix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, Protocol

from kb.records.types import Kind, Scope
from kb.registry import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A stretch of text that is best left whole."""

    text: str
    kind: Literal["prose", "fence", "table", "code"] = "prose"
    page: int | None = None  # where it begins, counted from 1
    end: int | None = None  # the page where it ends, if that is another
    flags: tuple[str, ...] = ()  # what a quotation should say of it, e.g. "suspicious"


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """What stands under one heading, or in one function."""

    trail: tuple[str, ...]  # title, heading, subheading
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedFile:
    """A file as its reader sees it.

    Attributes:
        record: validated front matter as JSON values; None for a plain document.
        asked: other words for what stands under a heading; under none for all of it.
    """

    kind: Kind
    title: str
    body: str
    sections: tuple[Section, ...]
    record: Mapping[str, Any] | None = None
    scope: Scope = field(default_factory=Scope)
    symptoms: tuple[str, ...] = ()
    asked: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class Reader(Protocol):
    """Turns the text of one file into sections.

    A reader takes time and memory in proportion to the file, opens no other file, and runs nothing
    that the file says.
    """

    def read(self, text: str, path: str) -> ParsedFile:
        """Read `text`; `path` is for names and messages.

        Raises:
            RecordError: the file is not what its suffix says, or beyond a limit.
        """
        ...


class BytesReader(Protocol):
    """A reader of a format that is no UTF-8 text, or that names its own encoding."""

    def read(self, data: bytes, path: str) -> ParsedFile:
        """Read `data`; see `Reader`."""
        ...


READERS: Registry[Reader] = Registry(
    "reader",
    {
        "markdown": "ingest.readers.markdown:Markdown",
        "notebook": "ingest.readers.notebook:Notebook",
        "restructuredtext": "ingest.readers.rst.reader:ReStructuredText",
        "text": "ingest.readers.text:PlainText",
        "python": "ingest.readers.source:Python",
        "cpp": "ingest.readers.source:CppReader",
        "cuda": "ingest.readers.source:CudaReader",
        "ptx": "ingest.readers.assembly:Ptx",
        "sass": "ingest.readers.assembly:Sass",
        "amdgcn": "ingest.readers.assembly:Amdgcn",
    },
)

BYTES_READERS: Registry[BytesReader] = Registry(
    "bytes-reader",
    {
        "html": "ingest.readers.html.reader:Html",
        "pdf": "ingest.readers.pdf.reader:Pdf",
    },
)

# The most bytes of one file, for the formats that are larger than the text in them.
MAX_BYTES: Mapping[str, int] = {"html": 64 << 20, "notebook": 64 << 20, "pdf": 512 << 20}

_BUILTIN: Mapping[str, str] = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".htm": "html",
    ".html": "html",
    ".xhtml": "html",
    ".ipynb": "notebook",
    ".pdf": "pdf",
    ".rst": "restructuredtext",
    ".text": "text",
    ".txt": "text",
    ".py": "python",
    ".pyi": "python",
    ".c": "cpp",
    ".cc": "cpp",
    ".cpp": "cpp",
    ".cxx": "cpp",
    ".h": "cpp",
    ".hh": "cpp",
    ".hpp": "cpp",
    ".inl": "cpp",
    ".cu": "cuda",
    ".cuh": "cuda",
    ".cl": "cuda",
    ".hip": "cuda",
    ".ptx": "ptx",
    ".sass": "sass",
    ".amdgcn": "amdgcn",
}


@cache
def suffixes() -> Mapping[str, str]:
    """Return which reader takes a file, by the suffix of its name in small letters.

    A reader of another distribution is named for the suffix that it reads: the entry point ``tex`` in the group
    ``kb.reader`` takes ``.tex``.
    """
    added = (*READERS.added(), *BYTES_READERS.added())
    return {**_BUILTIN, **{f".{name}": name for name in added if f".{name}" not in _BUILTIN}}
