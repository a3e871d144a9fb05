"""PDF: manuals of thousands of pages, one page at a time."""

from __future__ import annotations

import re
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from ingest.readers import ParsedFile
from ingest.readers.blocks import BlockOutline, fence, prose, short, table
from ingest.readers.pdf.flow import LARGER, FlowPart, Headings, OutlineEntry, Style, flow, plain
from kb.errors import RecordError

if TYPE_CHECKING:
    import pypdfium2 as pdfium

    from ingest.readers.pdf.page import Page, TextLine
    from ingest.readers.pdf.tables import Table

MAX_PAGES = 10_000
MAX_SECONDS = 900.0  # a manual of 3,000 pages takes a tenth of it
MAX_ENTRIES = 50_000  # of an outline
SAMPLE = 24  # pages that show what the text looks like
AROUND = 5  # pages before and after, on which a running header is looked for
ZONE = 0.12  # of the page's height, at the top and at the bottom
_NUMBER = re.compile(
    r"(?:page\s+)?[-\u2013\u2014|\s]*(?:\d{1,4}|[ivxlc]{1,7})[-\u2013\u2014|\s]*(?:(?:of|/)\s*\d+)?$",
    re.I,
)
_TOOL = re.compile(
    r"^(?:microsoft word|untitled|powerpoint|slide \d|anonymous|unspecified)|\.\w{2,4}$", re.I
)


class Pdf:
    """Reads the text of a PDF: headings, tables, listings, and the page that each is on."""

    def read(self, data: bytes, path: str) -> ParsedFile:
        """Read a PDF.

        Raises:
            RecordError: it is damaged, encrypted or without text, or beyond a limit.
        """
        document = _opened(data)
        try:
            count = len(document)
            if not 0 < count <= MAX_PAGES:
                raise RecordError(f"expected 1 to {MAX_PAGES} pages, found {count}: split it")
            return _Book(document, count).reading(PurePosixPath(path).stem)
        finally:
            document.close()


def _opened(data: bytes) -> pdfium.PdfDocument:
    import pypdfium2 as pdfium

    if b"%PDF-" not in data[:1024]:
        raise RecordError("expected a PDF, found another format: name it by what it is")
    try:
        return pdfium.PdfDocument(data)
    except pdfium.PdfiumError as error:
        if "password" in str(error).lower():
            raise RecordError(
                "expected an open PDF, found one that asks for a password: save it without one"
            ) from error
        raise RecordError(
            f"expected a whole PDF, found a damaged one ({error}): download or print it again"
        ) from error


@dataclass(frozen=True, slots=True)
class _Sheet:
    """A page whose tables are known."""

    page: Page
    tables: tuple[Table, ...]
    lines: tuple[TextLine, ...]
    margin: tuple[tuple[float, str], ...]  # height and text of what may be a running header
    numbers: tuple[tuple[float, int], ...]  # height and number at the end of an outermost line


class _Book:
    """A document while it is read."""

    def __init__(self, document: pdfium.PdfDocument, count: int) -> None:
        self._document = document
        self._count = count
        self._deadline = time.monotonic() + MAX_SECONDS

    def reading(self, stem: str) -> ParsedFile:
        style, largest = self._sample()
        entries = self._entries()
        title = self._title() or largest or short(stem)
        outline = BlockOutline(title)
        last: FlowPart | None = None
        deepest = 0
        for sheet in self._sheets():
            number = sheet.page.number
            headings = Headings(style, entries.get(number - 1, ()), deepest)
            lines, tables = sheet.lines, sheet.tables
            for part in flow(lines, tables, headings, number):
                if last is None or not last.take(part):
                    _emit(outline, last)
                    last = part
            deepest = headings.deepest
        _emit(outline, last)
        sections = outline.sections()
        if not sections:
            raise RecordError(
                f"expected text, found {self._count} pages of pictures: recognise its text (OCR) first"
            )
        # The passages hold the text; a second copy of a manual would serve nobody.
        return ParsedFile(kind="document", title=title, body="", sections=sections)

    def _page(self, index: int) -> Page:
        import pypdfium2 as pdfium

        from ingest.readers.pdf.page import read_page

        if time.monotonic() > self._deadline:
            raise RecordError(
                f"expected to be read in {MAX_SECONDS:.0f} s, was at page {index + 1} of {self._count}: split it"
            )
        try:
            return read_page(self._document, index)
        except pdfium.PdfiumError as error:
            raise RecordError(
                f"expected a whole PDF, found page {index + 1} damaged ({error}): download or print it again"
            ) from error

    def _sample(self) -> tuple[Style, str]:
        """Return what text and headings look like, and the largest words of the first page."""
        sizes: Counter[float] = Counter()
        step = max(1, self._count // SAMPLE)
        largest = ""
        for index in range(0, self._count, step):
            page = self._page(index)
            for line in page.lines:
                if not line.mono:
                    sizes[line.size] += len(line.text)
            if index == 0:
                largest = _largest(page)
        body = sizes.most_common(1)[0][0] if sizes else 10.0
        larger = sorted((size for size in sizes if size >= body * LARGER), reverse=True)
        return Style(body, tuple(_apart(larger))), largest

    def _title(self) -> str:
        """Return the title that the file gives itself, unless a tool gave it."""
        found = short(self._document.get_metadata_value("Title") or "")
        return "" if len(found) < 4 or _TOOL.search(found) else found

    def _entries(self) -> dict[int, list[OutlineEntry]]:
        """Return the outline by page, counted from 0."""
        entries: dict[int, list[OutlineEntry]] = {}
        for number, mark in enumerate(self._document.get_toc(max_depth=12)):
            if number >= MAX_ENTRIES:
                break
            target = mark.get_dest()
            index = None if target is None else target.get_index()
            if target is None or index is None or not short(mark.get_title()):
                continue
            entry = OutlineEntry(
                mark.level + 1, short(mark.get_title()), self._height_of(target, index)
            )
            entries.setdefault(index, []).append(entry)
        return entries

    def _height_of(self, target: pdfium.PdfDest, index: int) -> float | None:
        """Return how far from the top of its page an entry points, where it says so."""
        import pypdfium2 as pdfium

        mode, values = target.get_view()
        place = {pdfium.raw.PDFDEST_VIEW_XYZ: 1, pdfium.raw.PDFDEST_VIEW_FITH: 0}.get(mode)
        if place is None or len(values) <= place or values[place] is None:
            return None
        return float(self._document.get_page_size(index)[1] - values[place])

    def _sheets(self) -> Iterator[_Sheet]:
        """Yield the pages without what stands on their neighbours too, few at a time in memory."""
        window: deque[_Sheet] = deque()
        ready = 0  # sheets of the window that were yielded already
        for index in range(self._count):
            window.append(_sheet(self._page(index)))
            if len(window) - ready > AROUND:
                yield _bare(window, ready)
                ready += 1
            if ready > AROUND:
                window.popleft()
                ready -= 1
        while ready < len(window):
            yield _bare(window, ready)
            ready += 1


def _sheet(page: Page) -> _Sheet:
    from ingest.readers.pdf.tables import find_tables

    tables, lines = find_tables(page)
    ordered = sorted(lines, key=lambda line: line.y)
    margin = [(line.y, _mask(line.text)) for line in ordered if _outside(page, line.y)]
    margin += [(one.bottom, _mask(_text_of(one))) for one in tables if _in_margin(page, one)]
    numbers = [
        (line.y, int(word.text))
        for line in (*ordered[:1], *ordered[-1:])
        for word in (line.words[0], line.words[-1])
        if word.text.isdecimal() and len(word.text) < 6
        if _outside(page, line.y) or len(line.words) == 1
    ]
    return _Sheet(page, tables, lines, tuple(margin), tuple(numbers))


def _bare(window: Sequence[_Sheet], at: int) -> _Sheet:
    """Return a sheet without running headers, running footers and page numbers."""
    sheet = window[at]
    page = sheet.page
    others = [one for place, one in enumerate(window) if place != at]
    outermost = {line.y for line in _outermost(sheet.lines)}

    def runs(y: float, text: str) -> bool:
        mask = _mask(text)
        seen = sum(_has(one.margin, y, mask) for one in others)
        return seen >= min(2, len(others)) > 0

    def counts(line: TextLine) -> bool:
        if line.y not in outermost:
            return False
        if _NUMBER.match(line.text) and _outside(page, line.y):
            return True
        mine = {number - page.number for y, number in sheet.numbers if abs(y - line.y) < 1}
        return any(
            sum((one.page.number + step) in _numbers_at(one, line.y) for one in others) >= 2
            for step in mine
        )

    lines = tuple(
        line
        for line in sheet.lines
        if not counts(line) and not (_outside(page, line.y) and runs(line.y, line.text))
    )
    tables = tuple(
        one
        for one in sheet.tables
        if not _in_margin(page, one) or not runs(one.bottom, _text_of(one))
    )
    return _Sheet(page, tables, lines, sheet.margin, sheet.numbers)


def _outermost(lines: Sequence[TextLine]) -> list[TextLine]:
    """Return the lines at the very top and bottom, which may be two where one is only a number."""
    ordered = sorted(lines, key=lambda line: line.y)
    return [*ordered[:2], *ordered[-2:]]


def _numbers_at(sheet: _Sheet, y: float) -> set[int]:
    return {number for height, number in sheet.numbers if abs(height - y) < 3}


def _has(margin: Sequence[tuple[float, str]], y: float, mask: str) -> bool:
    return any(abs(height - y) < 3 and text == mask for height, text in margin)


def _outside(page: Page, y: float) -> bool:
    return y < ZONE * page.height or y > (1 - ZONE) * page.height


def _in_margin(page: Page, one: Table) -> bool:
    return one.bottom < ZONE * page.height or one.top > (1 - ZONE) * page.height


def _text_of(one: Table) -> str:
    return " ".join(cell for row in one.rows for cell in row)


def _mask(text: str) -> str:
    """Return a text with its numbers made alike."""
    return re.sub(r"\d+|\b[ivxlc]{1,7}\b", "#", text)


def _apart(sizes: Sequence[float]) -> list[float]:
    """Return sizes that can be told apart, at most six."""
    kept: list[float] = []
    for size in sizes:
        if not kept or kept[-1] - size >= 0.75:
            kept.append(size)
    return kept[:6]


def _largest(page: Page) -> str:
    size = max((line.size for line in page.lines), default=0.0)
    lines = [line.text for line in page.lines if line.size >= size - 0.5]
    return short(" ".join(lines)) if len(lines) <= 3 and plain(lines[0] if lines else "") else ""


def _emit(outline: BlockOutline, part: FlowPart | None) -> None:
    if part is None:
        return
    if part.kind == "heading":
        outline.heading(part.level, part.text)
        return
    if part.kind == "table":
        block = table(part.rows, part.page)
    elif part.kind == "listing":
        margin = min((len(line) - len(line.lstrip()) for line in part.code if line), default=0)
        block = fence("\n".join(line[margin:] for line in part.code), "", part.page)
    else:
        block = prose(part.text, part.page)
    outline.add(replace(block, end=part.end or None))
