"""From the lines and tables of a page to headings, paragraphs and listings in reading order."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import Literal

from ingest.readers.pdf.page import TextLine
from ingest.readers.pdf.tables import Table, find_columns

LARGER = 1.1  # than the text: a heading
MAX_HEADING_WORDS = 14
_BULLET = re.compile(r"[•▪▫\u2013‣◦●○■□➢➤\uf0b7\uf0a7·*-]$")
_NUMBER = re.compile(r"\(?(?:\d{1,2}|[a-z])[.)]$")
_LEADER = re.compile(r"(?:\s?[.·…]){4,}\s*[\divxlc]+$", re.IGNORECASE)
_ENTRY = re.compile(r"\S.*\s(?:\d{1,4}|[ivxlc]{1,6})$")
_OPEN_END = re.compile(r"[\w,\-)\]]$")


@dataclass(frozen=True, slots=True)
class OutlineEntry:
    """A line of the document's outline."""

    level: int  # from 1
    title: str
    y: float | None  # where on the page, from its top


@dataclass(frozen=True, slots=True)
class Style:
    """What the text and the headings of a document look like."""

    body: float  # size of the text, in points
    sizes: tuple[float, ...]  # of headings, largest first


@dataclass(slots=True)
class FlowPart:
    """A heading, or a block before its end is known: it may go on on the next page."""

    kind: Literal["heading", "prose", "listing", "table"]
    page: int
    text: str = ""
    level: int = 0
    rows: list[tuple[str, ...]] = field(default_factory=list)
    end: int = 0  # last page, where it is not the first
    code: list[str] = field(default_factory=list)  # lines with their indent from the page's margin

    def take(self, other: FlowPart) -> bool:
        """Go on with the first part of the next page, where it is the same block."""
        if self.kind != other.kind or other.page != max(self.end, self.page) + 1:
            return False
        if self.kind == "listing":
            self.code += other.code
        elif self.kind == "table" and len(self.rows[0]) == len(other.rows[0]):
            self.rows += other.rows[other.rows[0] == self.rows[0] :]
        elif self.kind == "prose" and _OPEN_END.search(self.text) and other.text[:1].islower():
            self.text = joined(self.text, other.text)
        else:
            return False
        self.end = other.page
        return True


class Headings:
    """Knows the headings of a page: by the outline, else by their letters."""

    def __init__(self, style: Style, entries: Sequence[OutlineEntry], deepest: int) -> None:
        self._style = style
        self._entries = list(entries)
        self._deepest = deepest  # level of the last heading that the outline gave

    @property
    def deepest(self) -> int:
        """The level of the last heading that the outline gave; 0 for none."""
        return self._deepest

    def before(self, y: float) -> Iterator[FlowPart]:
        """Yield the outline's headings above `y` that no line was found for."""
        while self._entries and (at := self._entries[0].y) is not None and at < y - 40:
            yield self._given(self._entries.pop(0))

    def rest(self) -> Iterator[FlowPart]:
        """Yield what the outline has for this page and no line was found for."""
        while self._entries:
            yield self._given(self._entries.pop(0))

    def match(self, lines: Sequence[TextLine]) -> tuple[int, list[FlowPart]]:
        """Return how many of the first lines are a heading, and that heading.

        Headings of the outline that come before it are given with it.
        """
        for count in range(min(3, len(lines)), 0, -1):
            key = plain(" ".join(line.text for line in lines[:count]))
            for place, entry in enumerate(self._entries):
                if key and _same(key, plain(entry.title)):
                    found = self._entries[: place + 1]
                    del self._entries[: place + 1]
                    return count, [self._given(one) for one in found]
        return self._by_letters(lines)

    def _given(self, entry: OutlineEntry) -> FlowPart:
        self._deepest = entry.level
        return FlowPart("heading", 0, entry.title, entry.level)

    def _by_letters(self, lines: Sequence[TextLine]) -> tuple[int, list[FlowPart]]:
        first = lines[0]
        larger = first.size >= self._style.body * LARGER
        if first.mono or not (larger or (first.bold and first.size >= self._style.body * 0.95)):
            return 0, []
        count = 1
        while count < min(3, len(lines)) and _goes_on(lines[count - 1], lines[count]):
            count += 1
        text = " ".join(line.text for line in lines[:count])
        too_long = len(text.split()) > MAX_HEADING_WORDS or not any(map(str.isalpha, text))
        if too_long or text.endswith((".", ":", ",", ";")) or _is_item(first):
            return 0, []
        if not larger and len(lines) > count and lines[count].bold:
            return 0, []  # a paragraph in bold
        rank = next((at for at, size in enumerate(self._style.sizes) if first.size >= size), None)
        level = (len(self._style.sizes) if rank is None else rank) + 1
        return count, [FlowPart("heading", 0, text, self._deepest + level)]


def flow(
    lines: Sequence[TextLine], tables: Sequence[Table], headings: Headings, page: int
) -> Iterator[FlowPart]:
    """Yield what is on a page in reading order."""
    lines = _without_contents(lines)
    left = min((line.x0 for line in lines), default=0.0)
    columns = _two_columns(lines)
    ordered = lines if columns else _merged(lines)
    for part in _parts(_mixed(ordered, tables), headings, left):
        part.page = page
        yield part


def joined(before: str, after: str) -> str:
    """Return two lines of a paragraph as one, a word that was cut made whole."""
    cut = before.endswith("-") and before[-2:-1].islower() and after[:1].islower()
    return before[:-1] + after if cut else f"{before} {after}".strip()


def plain(text: str) -> str:
    """Return the letters and digits of a title."""
    return "".join(filter(str.isalnum, text.casefold()))


def _same(line: str, title: str) -> bool:
    """Say whether a line is a title, whose number only one of them may carry."""
    if line == title:
        return True
    longer, shorter = sorted((line, title), key=len, reverse=True)
    rest = longer.removesuffix(shorter)
    numbered = re.fullmatch(r"(?:chapter|appendix|section|part)?[\da-z]?\d*", rest)
    return len(shorter) > 2 and len(rest) < len(longer) and bool(numbered)


def _goes_on(above: TextLine, below: TextLine) -> bool:
    near = 0 < below.y - above.y < 1.6 * above.size
    return near and abs(above.size - below.size) < 0.3 and above.bold == below.bold


def _is_item(line: TextLine) -> bool:
    first = line.words[0].text
    bullet = len(first) == 1 and _BULLET.match(first)
    return len(line.words) > 1 and bool(bullet or _NUMBER.match(first))


def _without_contents(lines: Sequence[TextLine]) -> list[TextLine]:
    """Leave out tables of contents: the outline says the same, and nobody asks for a page number."""
    kept = [line for line in lines if not _LEADER.search(line.text)]
    entries = [line for line in kept if _ENTRY.match(line.text)]
    if len(entries) >= 10 and len(entries) > 0.7 * len(kept):
        numbers = [line.words[-1].text for line in entries]
        values = [int(number) for number in numbers if number.isdigit()]
        if values and values == sorted(values):
            return [line for line in kept if line not in entries]
    return kept


def _two_columns(lines: Sequence[TextLine]) -> bool:
    """Say whether the text stands in two columns: then the file's own order is the better one."""
    if len(lines) < 12:
        return False
    x0, x1 = min(line.x0 for line in lines), max(line.x1 for line in lines)
    middle = (x0 + x1) / 2
    left = sum(line.x1 < middle + 5 and line.x1 > x0 + (x1 - x0) / 4 for line in lines)
    right = sum(line.x0 > middle - 5 for line in lines)
    return left > 0.3 * len(lines) and right > 0.3 * len(lines)


def _merged(lines: Sequence[TextLine]) -> list[TextLine]:
    """Return lines from top to bottom, those on one base line as one."""
    merged: list[TextLine] = []
    for line in sorted(lines, key=lambda one: (one.y, one.x0)):
        last = merged[-1] if merged else None
        if last is not None and abs(last.y - line.y) < 0.3 * max(last.size, line.size):
            words = sorted((*last.words, *line.words), key=lambda one: one.x0)
            merged[-1] = TextLine(tuple(words))
        else:
            merged.append(line)
    return merged


def _mixed(lines: Sequence[TextLine], tables: Sequence[Table]) -> list[TextLine | Table]:
    """Put each table before the first line below it."""
    mixed: list[TextLine | Table] = []
    waiting = list(tables)
    run: list[TextLine] = []
    for line in lines:
        while waiting and line.y > waiting[0].top and line.x0 < waiting[0].x1:
            mixed += [*find_columns(run), waiting.pop(0)]
            run = []
        run.append(line)
    return [*mixed, *find_columns(run), *waiting]


def _parts(
    items: Sequence[TextLine | Table], headings: Headings, left: float
) -> Iterator[FlowPart]:
    at = 0
    while at < len(items):
        item = items[at]
        if isinstance(item, Table):
            yield from headings.before(item.top)
            yield FlowPart("table", 0, rows=list(item.rows))
            at += 1
            continue
        run = _lines_from(items, at)
        yield from headings.before(item.y)
        count, found = headings.match(run[:4])
        if count:
            yield from found
        elif item.mono and (count := _listing(run, at > 0)):
            yield FlowPart("listing", 0, code=_code(run[:count], left))
        else:
            count = _paragraph(run, headings)
            yield FlowPart("prose", 0, text=_prose(run[:count]))
        at += count
    yield from headings.rest()


def _lines_from(items: Sequence[TextLine | Table], at: int) -> list[TextLine]:
    run: list[TextLine] = []
    for item in items[at : at + 400]:
        if isinstance(item, Table):
            break
        run.append(item)
    return run


def _listing(run: Sequence[TextLine], inside: bool) -> int:
    """Return how many lines are a listing; none for a name on a line of its own in a paragraph."""
    count = 1
    while count < len(run) and run[count].mono and run[count].y > run[count - 1].y:
        count += 1
    alone = count == 1 and inside and len(run[0].words) == 1 and len(run) > 1
    return 0 if alone and run[1].y - run[0].y < 1.4 * run[0].size else count


def _code(lines: Sequence[TextLine], left: float) -> list[str]:
    """Return the lines of a listing with each word in its own column."""
    width = _letter_width(lines)
    steps = [below.y - above.y for above, below in pairwise(lines)]
    usual = median(steps) if steps else 0.0
    code: list[str] = []
    for at, line in enumerate(lines):
        if at and steps[at - 1] > 1.7 * usual:
            code.append("")
        text = ""
        for word in line.words:
            column = round((word.x0 - left) / width)
            text = text.ljust(max(column, len(text) + bool(text))) + word.text
        code.append(text)
    return code


def _letter_width(lines: Sequence[TextLine]) -> float:
    """Return how far the pen moves for a letter."""
    steps = [
        (after.x0 - word.x0) / (len(word.text) + 1)
        for line in lines
        for word, after in pairwise(line.words)
    ]
    size = lines[0].size
    likely = [step for step in steps if 0.45 * size < step < 0.68 * size]
    return median(likely) if likely else 0.6 * size


def _paragraph(run: Sequence[TextLine], headings: Headings) -> int:
    """Return how many lines are one paragraph, or one item of a list."""
    count = 1
    while count < len(run):
        above, line = run[count - 1], run[count]
        step = line.y - above.y
        size = max(above.size, line.size)
        if not 0 < step < 1.65 * size or abs(above.size - line.size) > 1.1:
            break
        if _is_item(line) or (line.mono and not above.mono and not _names(run, count)):
            break
        if line.bold and not above.bold and headings.match(run[count : count + 1])[0]:
            break
        count += 1
    return count


def _names(run: Sequence[TextLine], at: int) -> bool:
    """Say whether a line in fixed letters is only a stretch of names in a paragraph."""
    above, line = run[at - 1], run[at]
    near = line.y - above.y < 1.35 * above.size and not above.text.endswith(":")
    return near and at + 1 < len(run) and not run[at + 1].mono


def _prose(lines: Sequence[TextLine]) -> str:
    text = ""
    for line in lines:
        text = joined(text, line.text) if text else line.text
    first, _, rest = text.partition(" ")
    bullet = len(first) == 1 and _BULLET.match(first) and rest
    return f"- {rest}" if bullet else text
