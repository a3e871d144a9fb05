"""The one stream that every reader gives: headings, and blocks in Markdown under them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ingest.readers import Block, Section
from kb.errors import RecordError

MAX_TEXT = 64 * 1024 * 1024  # characters of one document: beyond, it is no document
MAX_HEADING = 160  # characters: a breadcrumb is to be read at a glance
_TICKS = re.compile(r"`{3,}")


@dataclass(frozen=True, slots=True)
class Heading:
    """Where a section begins; one without text ends the sections of its level and below."""

    level: int
    text: str


class BlockOutline:
    """Gathers blocks under headings.

    Args:
        title: of the document: the first step of every breadcrumb.
        bare: keep a heading with nothing below it as a line of what it stands in. It may be a step
            or a rule; where menus and pictures are left out, it is what stood above one.
    """

    def __init__(self, title: str, *, bare: bool = False) -> None:
        self._title = title
        self._keeps = bare
        self._trail: list[tuple[int, str]] = []
        self._blocks: list[Block] = []
        self._sections: list[tuple[tuple[str, ...], list[Block]]] = []
        self._bare: Block | None = None  # the last heading, while nothing stands below it
        self._length = 0

    def heading(self, level: int, text: str) -> None:
        """Begin a section, which ends those of its level and below; without text, only end them."""
        self._close()
        if self._bare is not None and level <= self._trail[-1][0]:
            self._keep(self._bare)
        self._bare = None
        self._trail = [step for step in self._trail if step[0] < level]
        name = short(text)
        if name:
            self._trail.append((level, name))
            self._bare = prose(" ".join(text.split())) if self._keeps else None

    def add(self, *blocks: Block) -> None:
        """Put blocks under the present heading; those without text are left out.

        Raises:
            RecordError: the document is too long.
        """
        for block in blocks:
            if block.text.strip():
                self._length += len(block.text)
                self._blocks.append(block)
                self._bare = None
        if self._length > MAX_TEXT:
            raise RecordError(
                f"expected at most {MAX_TEXT >> 20} million characters of text, found more: split it"
            )

    def leave_out(self) -> None:
        """Note that something stands under the present heading that is not to be read."""
        self._bare = None

    def extend(self, parts: Iterable[Heading | Block]) -> None:
        """Take a stream of headings and blocks."""
        for part in parts:
            if isinstance(part, Heading):
                self.heading(part.level, part.text)
            else:
                self.add(part)

    def sections(self) -> tuple[Section, ...]:
        """Return what was gathered."""
        self._close()
        if self._bare is not None:
            self._keep(self._bare)
            self._bare = None
        return tuple(Section(trail=trail, blocks=tuple(one)) for trail, one in self._sections)

    def _close(self) -> None:
        if self._blocks:
            self._sections.append((self._names(), self._blocks))
            self._blocks = []

    def _keep(self, bare: Block) -> None:
        """Put the last heading, which is a line of its own, with what stands before it."""
        _, name = self._trail.pop()
        above = self._names()
        if name == above[0]:  # the title, which every breadcrumb has
            return
        if not self._sections or self._sections[-1][0] != above:
            self._sections.append((above, []))
        self._sections[-1][1].append(bare)

    def _names(self) -> tuple[str, ...]:
        names = [name for _, name in self._trail]
        # A document's first heading often repeats its title.
        return tuple(names if names[:1] == [self._title] else [self._title, *names])


def prose(text: str, page: int | None = None) -> Block:
    """Return a paragraph or a list."""
    return Block(text=text.strip("\n").rstrip(), page=page)


def fence(code: str, language: str = "", page: int | None = None) -> Block:
    """Return a listing; its fence is longer than any in the code (CommonMark, section 4.5)."""
    code = code.expandtabs().strip("\n").rstrip()
    if not code.strip():
        return Block(text="")
    longest = max((len(run) for run in _TICKS.findall(code)), default=2)
    mark = "`" * (longest + 1)
    lines = "\n".join(line.rstrip() for line in code.split("\n"))
    return Block(text=f"{mark}{language}\n{lines}\n{mark}", kind="fence", page=page)


def table(rows: Sequence[Sequence[str]], page: int | None = None) -> Block:
    """Return a table whose first row is its header; a row that is too short is filled up."""
    kept = [[_cell(text) for text in row] for row in rows]
    kept = [row for row in kept if any(row)]
    if not kept:
        return Block(text="")
    width = max(len(row) for row in kept)
    kept = [row + [""] * (width - len(row)) for row in kept]
    used = [place for place in range(width) if any(row[place] for row in kept)]
    lines = ["| " + " | ".join(row[place] for place in used) + " |" for row in kept]
    lines.insert(1, "|" + " --- |" * len(used))
    return Block(text="\n".join(lines), kind="table", page=page)


def short(text: str) -> str:
    """Return a heading as a step of a breadcrumb: one line, of readable length."""
    line = " ".join(text.replace("`", "").split()).strip(" ¶§\uf0c1")
    if len(line) > MAX_HEADING:
        line = line[: MAX_HEADING - 1].rsplit(" ", 1)[0] + "…"
    # The mark stands between the steps of a breadcrumb.
    return line.replace(" > ", " / ")


def body_of(sections: Sequence[Section]) -> str:
    """Return all blocks as one Markdown text."""
    return "\n\n".join(block.text for section in sections for block in section.blocks)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
