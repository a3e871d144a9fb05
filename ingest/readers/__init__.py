"""What makes sections of a file's text, by suffix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from kb.registry import Registry
from kb.types import Kind, Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A stretch of text that is best left whole."""

    text: str
    kind: Literal["prose", "fence", "table", "code"] = "prose"


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """What stands under one heading, or in one function."""

    trail: tuple[str, ...]  # title, heading, subheading
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A file as its reader sees it.

    Attributes:
        record: validated front matter as JSON values; None for a plain document.
    """

    kind: Kind
    title: str
    body: str
    sections: tuple[Section, ...]
    record: Mapping[str, Any] | None = None
    scope: Scope = field(default_factory=Scope)
    symptoms: tuple[str, ...] = ()


class Reader(Protocol):
    """Turns the text of one file into sections."""

    def read(self, text: str, path: str) -> Reading:
        """Read `text`; `path` is for names and messages.

        Raises:
            RecordError: the front matter breaks the schema.
        """
        ...


READERS: Registry[Reader] = Registry(
    "reader",
    {
        "markdown": "ingest.readers.markdown:Markdown",
        "python": "ingest.readers.source:Python",
        "cpp": "ingest.readers.source:Cpp",
        "cuda": "ingest.readers.source:Cuda",
    },
)

SUFFIXES: Mapping[str, str] = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".py": "python",
    ".c": "cpp",
    ".cpp": "cpp",
    ".h": "cpp",
    ".hpp": "cpp",
    ".cu": "cuda",
    ".cuh": "cuda",
    ".hip": "cuda",
}
