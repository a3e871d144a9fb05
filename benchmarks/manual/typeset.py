"""Make a manual in PDF from documents: outline, running headers, ruled tables, listings.

The page of every heading is known from here, not from reading the PDF.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from reportlab.lib import colors
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import ParagraphStyle
from reportlab.lib.units import mm
from reportlab.platypus import (
    BaseDocTemplate,
    Flowable,
    Frame,
    LongTable,
    PageBreak,
    PageTemplate,
    Paragraph,
    Preformatted,
    Spacer,
    TableStyle,
)

from ingest.readers import Block, ParsedFile

WIDTH = 90  # characters of a listing's line
MAX_COLUMNS = 8
BODY = ParagraphStyle("body", fontName="Times-Roman", fontSize=10, leading=12.5, spaceAfter=5)
CELL = ParagraphStyle("cell", fontName="Times-Roman", fontSize=8.5, leading=10)
CODE = ParagraphStyle("code", fontName="Courier", fontSize=8, leading=9.6, spaceAfter=6)
HEADINGS = tuple(
    ParagraphStyle(
        f"h{level}",
        fontName="Helvetica-Bold",
        fontSize=size,
        leading=size * 1.2,
        spaceBefore=size * 0.7,
        spaceAfter=size * 0.35,
        keepWithNext=1,
    )
    for level, size in enumerate((20, 15, 12.5, 11, 10.5))
)


@dataclass(frozen=True, slots=True)
class Placed:
    """A heading with the steps above it, and the page that it is on."""

    trail: tuple[str, ...]
    page: int


class _Heading(Paragraph):  # type: ignore[misc]
    def __init__(self, trail: tuple[str, ...]) -> None:
        super().__init__(_safe(trail[-1]), HEADINGS[min(len(trail), len(HEADINGS)) - 1])
        self.trail = trail


class _Manual(BaseDocTemplate):  # type: ignore[misc]
    def __init__(self, path: Path, title: str) -> None:
        super().__init__(
            str(path), pagesize=A4, title=title, author="made for a benchmark", invariant=1
        )
        width, height = A4
        frame = Frame(22 * mm, 22 * mm, width - 44 * mm, height - 44 * mm)
        self.addPageTemplates(PageTemplate(frames=[frame], onPageEnd=self._margins))
        self.placed: list[Placed] = []
        self._chapter = title
        self._manual = title
        self._level = -1

    def afterFlowable(self, flowable: Flowable) -> None:  # noqa: N802  (the library calls it)
        if not isinstance(flowable, _Heading):
            return
        level = min(len(flowable.trail) - 1, self._level + 1)  # an outline skips no level
        self._level = level
        key = f"heading{len(self.placed)}"
        self.canv.bookmarkPage(key)
        self.canv.addOutlineEntry(flowable.trail[-1], key, level=level, closed=level > 0)
        self.placed.append(Placed(flowable.trail, self.page))
        if level == 0:
            self._chapter = flowable.trail[0]

    def _margins(self, canvas: Any, _: object) -> None:
        width, height = A4
        canvas.saveState()
        canvas.setFont("Helvetica", 8)
        if self.page % 2:
            canvas.drawRightString(
                width - 22 * mm, height - 15 * mm, f"{self._chapter}  |  {self.page}"
            )
        else:
            canvas.drawString(22 * mm, height - 15 * mm, f"{self.page}  |  {self._chapter}")
        canvas.drawCentredString(width / 2, 12 * mm, f"{self._manual} - Rev. 1.0")
        canvas.line(22 * mm, height - 17 * mm, width - 22 * mm, height - 17 * mm)
        canvas.restoreState()


def typeset(chapters: Sequence[ParsedFile], path: Path, title: str) -> tuple[list[Placed], int]:
    """Write the manual.

    Returns:
        Its headings in order, and how many pages it has.
    """
    manual = _Manual(path, title)
    manual.build([part for chapter in chapters for part in _chapter(chapter)])
    return manual.placed, manual.page


def _chapter(reading: ParsedFile) -> Iterator[Flowable]:
    yield PageBreak()
    before: tuple[str, ...] = ()
    for section in reading.sections:
        trail = section.trail
        shared = next(
            (at for at, (a, b) in enumerate(zip(before, trail, strict=False)) if a != b),
            min(len(before), len(trail)),
        )
        for depth in range(shared + 1, len(trail) + 1):
            yield _Heading(trail[:depth])
        before = trail
        for block in section.blocks:
            yield from _block(block)


def _block(block: Block) -> Iterator[Flowable]:
    if block.kind == "fence":
        lines = [part for line in block.text.split("\n")[1:-1] for part in _wrapped(line)]
        for start in range(0, len(lines), 60):
            yield Preformatted("\n".join(lines[start : start + 60]), CODE)
    elif block.kind == "table":
        yield from _table(block.text)
    else:
        for line in block.text.split("\n"):
            yield Paragraph(_safe(line.strip()), BODY)


def _table(text: str) -> Iterator[Flowable]:
    rows = [_cells(line) for at, line in enumerate(text.split("\n")) if at != 1]
    if len(rows[0]) > MAX_COLUMNS:
        return
    usable = A4[0] - 46 * mm
    weights = [max(6, *(min(len(row[at]), 60) for row in rows)) for at in range(len(rows[0]))]
    widths = [usable * weight / sum(weights) for weight in weights]
    cells = [[Paragraph(_safe(cell[:900]), CELL) for cell in row] for row in rows]
    grid = LongTable(cells, colWidths=widths, repeatRows=1)
    grid.setStyle(
        TableStyle(
            [
                ("GRID", (0, 0), (-1, -1), 0.5, colors.grey),
                ("BACKGROUND", (0, 0), (-1, 0), colors.lightgrey),
                ("VALIGN", (0, 0), (-1, -1), "TOP"),
            ]
        )
    )
    yield grid
    yield Spacer(1, 6)


def _cells(line: str) -> list[str]:
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def _wrapped(line: str) -> list[str]:
    return [line[at : at + WIDTH] for at in range(0, len(line), WIDTH)] or [""]


def _safe(text: str) -> str:
    """Return text that the standard fonts can show, its code in fixed letters."""
    plain = escape(text.encode("cp1252", "replace").decode("cp1252"))
    plain = plain.replace("**", "")
    return re.sub(r"`([^`]+)`", r'<font face="Courier">\1</font>', plain)
