"""One page of a PDF as geometry: words and lines with their places and fonts, and ruled lines.

All coordinates are points from the upper left corner of the page as it is read, whichever way it
lies in the file.
"""

from __future__ import annotations

import ctypes
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import pypdfium2 as pdfium
from pypdfium2 import raw

from kb.errors import RecordError

MAX_CHARACTERS = 200_000  # of one page: a full page of small print has 10,000
MAX_OBJECTS = 20_000  # drawn things of one page: beyond, it is a picture
MAX_SEGMENTS = 400  # of one path: a table's grid, not a curve
MAX_FORMS = 3  # drawings in drawings
_MONO = re.compile(
    r"mono|courier|consol|menlo|typewriter|inconsolata|cmtt|sourcecode|fira ?code|lettergothic|"
    r"ocr-?b|terminal|andale",
    re.IGNORECASE,
)
_ENDS = {"\n", "\r", "\x02", "\ufffe"}
_HYPHENS = {"\x02", "\ufffe"}  # what the library gives for one that cuts a word at a line's end
_BOLD = re.compile(r"bold|black|heavy|semib|demi|cmbx", re.IGNORECASE)
_LIGATURES = str.maketrans(
    {
        "ﬀ": "ff",
        "ﬁ": "fi",
        "ﬂ": "fl",
        "ﬃ": "ffi",
        "ﬄ": "ffl",
        "\xad": "-",
    }
)
Place = Callable[[float, float], tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Word:
    """Letters without a space between: `x0` is where the pen began, `y` its base line."""

    text: str
    x0: float
    x1: float
    y: float
    size: float
    mono: bool
    bold: bool


@dataclass(frozen=True)
class TextLine:
    """Words on one base line, from left to right."""

    words: tuple[Word, ...]

    @cached_property
    def text(self) -> str:
        """The words with single spaces."""
        return " ".join(word.text for word in self.words)

    @property
    def x0(self) -> float:
        """Left edge."""
        return self.words[0].x0

    @cached_property
    def x1(self) -> float:
        """Right edge."""
        return max(word.x1 for word in self.words)

    @property
    def y(self) -> float:
        """Base line."""
        return self.words[0].y

    @cached_property
    def size(self) -> float:
        """Size of most of the letters, in points."""
        return self._most(lambda word: round(word.size * 2) / 2)

    @cached_property
    def mono(self) -> bool:
        """Whether all letters are of a fixed width."""
        return all(word.mono for word in self.words)

    @cached_property
    def bold(self) -> bool:
        """Whether all letters are bold."""
        return all(word.bold for word in self.words)

    def _most(self, value: Callable[[Word], float]) -> float:
        if len(self.words) == 1:
            return value(self.words[0])
        counts: Counter[float] = Counter()
        for word in self.words:
            counts[value(word)] += len(word.text)
        return counts.most_common(1)[0][0]


@dataclass(frozen=True, slots=True)
class RuledLine:
    """A straight ruled line: `at` is its y where it lies, its x where it stands."""

    at: float
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Page:
    """What is on a page.

    Attributes:
        number: counted from 1.
        lines: in the order of the file.
    """

    number: int
    width: float
    height: float
    lines: tuple[TextLine, ...]
    lying: tuple[RuledLine, ...]
    standing: tuple[RuledLine, ...]


def read_page(document: pdfium.PdfDocument, index: int) -> Page:
    """Read the page of this index, counted from 0, and release what it took.

    Raises:
        RecordError: it has more on it than a page can have.
    """
    page = document[index]
    try:
        text = page.get_textpage()
        try:
            box = page.get_bbox()
            words, turned = _words(text, index + 1)
            place = _place(turned, box)
            lines = tuple(_lines(words, place))
        finally:
            text.close()
        lying, standing = _rules(page, place)
        width, height = abs(box[2] - box[0]), abs(box[3] - box[1])
        if turned % 2:
            width, height = height, width
        inside = tuple(one for one in lines if -1 <= one.x0 <= width + 1 and 0 <= one.y <= height)
        return Page(index + 1, width, height, inside, lying, standing)
    finally:
        page.close()


@dataclass(frozen=True, slots=True)
class _Raw:
    """A word as the file places it; a line ends after it where `last`."""

    text: str
    start: tuple[float, float]
    box: tuple[float, float, float, float]
    size: float
    quarter: int  # which way it runs, in quarter turns against the clock
    font: bytes
    fixed: bool
    last: bool


def _words(text: pdfium.PdfTextPage, number: int) -> tuple[list[_Raw], int]:
    """Return the words in the order of the file, and which way most of them run."""
    count = text.count_chars()
    if count > MAX_CHARACTERS:
        raise RecordError(
            f"expected at most {MAX_CHARACTERS} characters on a page, found {count} on page {number}: "
            "leave it out or convert it"
        )
    letters = _letters(text, count)
    measure = _Measure(text)
    words: list[_Raw] = []
    start = -1
    for at, letter in enumerate([*letters, "\n"]):
        if not letter.isspace() and letter > " " and letter not in _HYPHENS:
            start = at if start < 0 else start
            continue
        if start >= 0:
            shown = letters[start:at].translate(_LIGATURES) + "-" * (letter in _HYPHENS)
            words.append(measure.word(start, at - 1, shown, last=letter in _ENDS))
        elif words and letter in _ENDS and not words[-1].last:
            words[-1] = replace(words[-1], last=True)
        start = -1
    turns = Counter(word.quarter for word in words)
    turned = turns.most_common(1)[0][0] if turns else 0
    return [word for word in words if word.quarter == turned], turned


def _letters(text: pdfium.PdfTextPage, count: int) -> str:
    """Return one character for each that the library counts."""
    letters = text.get_text_range(errors="replace") if count else ""
    if len(letters) != count:
        codes = (raw.FPDFText_GetUnicode(text, at) for at in range(count))
        # Surrogates come one by one, and what has no meaning comes as zero.
        letters = "".join("\ufffd" if 0xD800 <= code <= 0xDFFF else chr(code) for code in codes)
    return letters.replace("\0", "\ufffd")  # no text of PostgreSQL holds a zero


class _Measure:
    """Measures words of one page, in memory that it asks for once."""

    def __init__(self, text: pdfium.PdfTextPage) -> None:
        self._text = text
        self._values = [ctypes.c_double() for _ in range(4)]
        self._matrix = raw.FS_MATRIX()
        self._name = ctypes.create_string_buffer(128)
        self._flags = ctypes.c_int()

    def word(self, first: int, final: int, shown: str, *, last: bool) -> _Raw:
        text, values, matrix = self._text, self._values, self._matrix
        raw.FPDFText_GetCharOrigin(text, first, values[0], values[1])
        x, y = values[0].value, values[1].value
        raw.FPDFText_GetMatrix(text, first, matrix)
        raw.FPDFText_GetFontInfo(text, first, self._name, 128, self._flags)
        raw.FPDFText_GetCharBox(text, final, *values)
        left, right, bottom, top = (value.value for value in values)
        size = raw.FPDFText_GetFontSize(text, first) * math.hypot(matrix.c, matrix.d)
        quarter = round(math.atan2(matrix.b, matrix.a) / (math.pi / 2)) % 4
        return _Raw(
            text=shown,
            start=(x, y),
            box=(min(left, x), bottom, max(right, x), top),
            size=max(size, 0.1),
            quarter=quarter,
            font=self._name.value,
            fixed=bool(self._flags.value & 1),
            last=last,
        )


def _place(turned: int, box: tuple[float, float, float, float]) -> Place:
    """Return what puts a point of the file onto the page as it is read."""
    left, bottom, right, top = box
    places: tuple[Place, ...] = (
        lambda x, y: (x - left, top - y),
        lambda x, y: (y - bottom, x - left),
        lambda x, y: (right - x, y - bottom),
        lambda x, y: (top - y, right - x),
    )
    return places[turned]


def _lines(words: list[_Raw], place: Place) -> Iterator[TextLine]:
    """Yield lines: a word that does not stand to the right of the one before begins another."""
    line: list[Word] = []
    for one in words:
        x0, y = place(*one.start)
        x1 = max(place(one.box[0], one.box[1])[0], place(one.box[2], one.box[3])[0])
        mono, bold = _style(one.font, one.fixed)
        word = Word(one.text, x0, max(x0, x1), y, one.size, mono, bold)
        if line:
            before = line[-1]
            size = max(before.size, word.size)
            if abs(y - line[0].y) > 0.45 * size or x0 < before.x0 - 0.1:
                yield TextLine(tuple(line))
                line = []
        line.append(word)
        if one.last:
            yield TextLine(tuple(line))
            line = []
    if line:
        yield TextLine(tuple(line))


@lru_cache(maxsize=1024)
def _style(name: bytes, fixed: bool) -> tuple[bool, bool]:
    font = name.decode("latin-1")
    return fixed or bool(_MONO.search(font)), bool(_BOLD.search(font))


def _rules(
    page: pdfium.PdfPage, place: Place
) -> tuple[tuple[RuledLine, ...], tuple[RuledLine, ...]]:
    lying: list[RuledLine] = []
    standing: list[RuledLine] = []
    for number, (path, matrices) in enumerate(_paths(page)):
        if number > MAX_OBJECTS:
            break
        for begin, end in _segments(path, matrices):
            (ax, ay), (bx, by) = place(*begin), place(*end)
            if abs(ay - by) < 1.0 and abs(ax - bx) > 4.0:
                lying.append(RuledLine((ay + by) / 2, min(ax, bx), max(ax, bx)))
            elif abs(ax - bx) < 1.0 and abs(ay - by) > 4.0:
                standing.append(RuledLine((ax + bx) / 2, min(ay, by), max(ay, by)))
    return tuple(lying), tuple(standing)


_Matrices = tuple[tuple[float, float, float, float, float, float], ...]
_Point = tuple[float, float]


def _paths(page: pdfium.PdfPage) -> Iterator[tuple[object, _Matrices]]:
    """Yield the paths of a page, those in its drawings too, each with the ways to the page."""
    waiting: list[tuple[object, _Matrices]] = []
    for at in range(min(raw.FPDFPage_CountObjects(page), MAX_OBJECTS)):
        waiting.append((raw.FPDFPage_GetObject(page, at), ()))
    waiting.reverse()
    while waiting:
        one, above = waiting.pop()
        kind = raw.FPDFPageObj_GetType(one)
        if kind not in {raw.FPDF_PAGEOBJ_PATH, raw.FPDF_PAGEOBJ_FORM}:
            continue
        matrix = raw.FS_MATRIX()
        raw.FPDFPageObj_GetMatrix(one, matrix)
        matrices = ((matrix.a, matrix.b, matrix.c, matrix.d, matrix.e, matrix.f), *above)
        if kind == raw.FPDF_PAGEOBJ_PATH:
            yield one, matrices
        elif len(above) < MAX_FORMS:
            inside = min(raw.FPDFFormObj_CountObjects(one), MAX_OBJECTS)
            waiting.extend((raw.FPDFFormObj_GetObject(one, at), matrices) for at in range(inside))


def _segments(path: object, matrices: _Matrices) -> Iterator[tuple[_Point, _Point]]:
    """Yield the straight lines of a path."""
    count = raw.FPDFPath_CountSegments(path)
    if not 2 <= count <= MAX_SEGMENTS:
        return
    x, y = ctypes.c_float(), ctypes.c_float()
    first: _Point | None = None
    before: _Point | None = None
    for at in range(count):
        segment = raw.FPDFPath_GetPathSegment(path, at)
        raw.FPDFPathSegment_GetPoint(segment, x, y)
        point = (x.value, y.value)
        for a, b, c, d, e, f in matrices:
            point = (a * point[0] + c * point[1] + e, b * point[0] + d * point[1] + f)
        kind = raw.FPDFPathSegment_GetType(segment)
        if kind == raw.FPDF_SEGMENT_MOVETO:
            first = point
        elif kind == raw.FPDF_SEGMENT_LINETO and before is not None:
            yield before, point
        if raw.FPDFPathSegment_GetClose(segment) and first is not None and point != first:
            yield point, first
        before = point
