"""Tables on a page: from their ruled lines, or from columns that stand one below the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ingest.readers.pdf.page import Page, RuledLine, TextLine, Word

NEAR = 3.0  # points between lines that meet
MAX_RULES = 2000  # of one direction: beyond, it is a drawing
MIN_WIDTH = 72.0  # points of a table: what TeX draws for an underscore is a rule, too
MIN_GAP = 0.9  # of the letters' size: a column's gutter where rules lie between the rows
WIDE_GAP = 1.6  # of the letters' size: a column's gutter where no rule helps
EDGE = 1.5  # of the letters' size: nearer to a cell's edge, no further letter fits
MIN_ROWS = 3  # of a table without rules


@dataclass(frozen=True, slots=True)
class Table:
    """A table and the place that it takes."""

    rows: tuple[tuple[str, ...], ...]
    x0: float
    x1: float
    top: float
    bottom: float

    def holds(self, word: Word) -> bool:
        """Say whether a word stands in it."""
        middle, height = (word.x0 + word.x1) / 2, word.y - word.size * 0.3
        inside = self.x0 - NEAR <= middle <= self.x1 + NEAR
        return inside and self.top - NEAR <= height <= self.bottom + NEAR


def find_tables(page: Page) -> tuple[tuple[Table, ...], tuple[TextLine, ...]]:
    """Return the tables of a page from top to bottom, and the lines that stand in none."""
    words = [word for line in page.lines for word in line.words]
    tables = list(_ruled(page, words))
    tables += _striped(page, [word for word in words if not _held(word, tables)], tables)
    left: list[TextLine] = []
    for line in page.lines:
        kept = tuple(word for word in line.words if not _held(word, tables))
        if kept:
            left.append(line if len(kept) == len(line.words) else TextLine(kept))
    return tuple(sorted(tables, key=lambda one: one.top)), tuple(left)


def find_columns(lines: Sequence[TextLine]) -> Iterator[Table | TextLine]:
    """Yield lines as they come, a run of them that stands in columns as one table."""
    at = 0
    while at < len(lines):
        taken, found = _run(lines, at)
        if found is None:
            yield lines[at]
            at += 1
        else:
            yield found
            at += taken


def _held(word: Word, tables: Sequence[Table]) -> bool:
    return any(table.holds(word) for table in tables)


def _ruled(page: Page, words: Sequence[Word]) -> Iterator[Table]:
    """Yield the tables whose cells are boxes."""
    lying, standing = _joined(page.lying), _joined(page.standing)
    if len(lying) > MAX_RULES or len(standing) > MAX_RULES:
        return
    for rows, columns in _grids(lying, standing):
        xs = _distinct([*(one.at for one in columns), *_ends(rows)])
        ys = _distinct([*(one.at for one in rows), *_ends(columns)])
        drawn = sum(one.end - one.start for one in rows)
        if len(xs) < 3 or len(ys) < 3 or drawn < len(ys) * (xs[-1] - xs[0]) / 2:
            continue  # a box, or boxes that only happen to touch
        cells = _cells(xs, ys, columns, words)
        filled = sum(any(row) for row in cells)
        several = sum(sum(map(bool, row)) >= 2 for row in cells)
        if filled >= 2 and several >= 1:
            yield Table(tuple(map(tuple, cells)), xs[0], xs[-1], ys[0], ys[-1])


def _joined(rules: Sequence[RuledLine]) -> list[RuledLine]:
    """Return rules with those that continue or double one another made one."""
    groups: list[list[RuledLine]] = []
    for rule in sorted(rules, key=lambda one: one.at):
        if groups and rule.at - groups[-1][-1].at < NEAR / 2:
            groups[-1].append(rule)
        else:
            groups.append([rule])
    joined: list[RuledLine] = []
    for group in groups:
        first = len(joined)
        for rule in sorted(group, key=lambda one: one.start):
            last = joined[-1] if len(joined) > first else None
            if last is not None and rule.start <= last.end + NEAR:
                joined[-1] = replace(last, end=max(last.end, rule.end))
            else:
                joined.append(rule)
    return joined


def _grids(
    lying: list[RuledLine], standing: list[RuledLine]
) -> Iterator[tuple[list[RuledLine], list[RuledLine]]]:
    """Yield the rules that hang together."""
    left_lying, left_standing = set(range(len(lying))), set(range(len(standing)))
    while left_standing:
        rows: set[int] = set()
        columns = {left_standing.pop()}
        waiting = [(True, next(iter(columns)))]
        while waiting:
            upright, at = waiting.pop()
            mine = standing[at] if upright else lying[at]
            others, found = (lying, left_lying) if upright else (standing, left_standing)
            met = {one for one in found if _meet(mine, others[one])}
            found -= met
            (rows if upright else columns).update(met)
            waiting.extend((not upright, one) for one in met)
        yield [lying[at] for at in sorted(rows)], [standing[at] for at in sorted(columns)]


def _meet(a: RuledLine, b: RuledLine) -> bool:
    across = a.start - NEAR <= b.at <= a.end + NEAR
    return across and b.start - NEAR <= a.at <= b.end + NEAR


def _ends(rules: Sequence[RuledLine]) -> list[float]:
    return [value for one in rules for value in (one.start, one.end)]


def _distinct(values: Sequence[float]) -> list[float]:
    kept: list[float] = []
    for value in sorted(values):
        if not kept or value - kept[-1] > NEAR:
            kept.append(value)
    return kept


def _cells(
    xs: Sequence[float], ys: Sequence[float], columns: Sequence[RuledLine], words: Sequence[Word]
) -> list[list[str]]:
    """Return the texts of a grid; cells with no rule between them are one, in the first column."""
    grid: dict[tuple[int, int], list[Word]] = {}
    for word in words:
        row = _slot(ys, word.y - word.size * 0.3)
        column = _slot(xs, (word.x0 + word.x1) / 2)
        if row is None or column is None:
            continue
        middle = (ys[row] + ys[row + 1]) / 2
        while column > 0 and not _parted(xs[column], middle, columns):
            column -= 1
        grid.setdefault((row, column), []).append(word)
    return [
        [_text(grid.get((row, column), ()), xs[column + 1]) for column in range(len(xs) - 1)]
        for row in range(len(ys) - 1)
    ]


def _slot(edges: Sequence[float], value: float) -> int | None:
    for at in range(len(edges) - 1):
        if edges[at] - 0.5 <= value <= edges[at + 1] + 0.5:
            return at
    return None


def _parted(x: float, y: float, columns: Sequence[RuledLine]) -> bool:
    return any(
        abs(one.at - x) <= NEAR and one.start - NEAR <= y <= one.end + NEAR for one in columns
    )


def _text(words: Sequence[Word], right: float) -> str:
    """Return a cell's words as they are read; a name that its right edge broke is made whole."""
    text = ""
    before: Word | None = None
    for line in _by_line(words):
        for word in line:
            new = before is not None and word is line[0]
            broken = new and before is not None and before.mono and word.mono
            edge = before is not None and right - before.x1 < EDGE * before.size
            text += word.text if not text or (broken and edge) else f" {word.text}"
            before = word
    return text


def _striped(page: Page, words: Sequence[Word], taken: Sequence[Table]) -> Iterator[Table]:
    """Yield the tables that have rules between rows only, as books print them."""
    groups: list[list[RuledLine]] = []
    for rule in sorted(_joined(page.lying), key=lambda one: one.at):
        if any(one.top - NEAR <= rule.at <= one.bottom + NEAR for one in taken):
            continue
        for group in groups:
            same = abs(group[0].start - rule.start) < NEAR and abs(group[0].end - rule.end) < NEAR
            if same:
                group.append(rule)
                break
        else:
            groups.append([rule])
    for group in groups:
        found = _stripe(group, words) if len(group) >= 3 else None
        if found is not None:
            yield found


def _stripe(group: Sequence[RuledLine], words: Sequence[Word]) -> Table | None:
    edges = _distinct([one.at for one in group])
    x0, x1 = group[0].start, group[0].end
    inside = [
        word
        for word in words
        if x0 - NEAR <= word.x0 <= x1 + NEAR and edges[0] <= word.y - word.size * 0.3 <= edges[-1]
    ]
    lines = _by_line(inside)
    beside = sum(edges[0] <= word.y - word.size * 0.3 <= edges[-1] for word in words) - len(inside)
    if len(edges) < 3 or len(lines) < 2 or x1 - x0 < MIN_WIDTH or beside > len(inside) / 4:
        return None
    gutters = _gutters(lines)
    if not gutters:
        return None
    columns = [x0 - NEAR, *gutters, x1 + NEAR]
    # With three rules the rows lie between the last two, one to a line that fills the first column.
    rows: list[list[str]] = []
    bands: list[int | None] = []
    for line in lines:
        cells = _split(line, columns)
        band = _slot(edges, line[0].y - line[0].size * 0.3)
        several = len(edges) > 3 or band == 0
        if rows and bands[-1] == band and (several or not cells[0]):
            rows[-1] = [f"{a} {b}".strip() for a, b in zip(rows[-1], cells, strict=True)]
        else:
            rows.append(cells)
        bands.append(band)
    if len(rows) < 2:
        return None
    return Table(tuple(map(tuple, rows)), x0, x1, edges[0], edges[-1])


def _by_line(words: Sequence[Word]) -> list[list[Word]]:
    lines: list[list[Word]] = []
    for word in sorted(words, key=lambda one: (one.y, one.x0)):
        if lines and abs(lines[-1][0].y - word.y) < 0.45 * word.size:
            lines[-1].append(word)
        else:
            lines.append([word])
    return [sorted(line, key=lambda one: one.x0) for line in lines]


def _gutters(lines: Sequence[Sequence[Word]]) -> list[float]:
    """Return the middle of each stretch of x on which no word stands, but for a few headers."""
    spare = len(lines) // 10
    edges = sorted(
        [(word.x0, 1) for line in lines for word in line]
        + [(word.x1, -1) for line in lines for word in line]
    )
    size = max(word.size for line in lines for word in line)
    gutters: list[float] = []
    depth, since = 0, None
    for x, step in edges:
        if depth <= spare and since is not None and x - since >= MIN_GAP * size:
            gutters.append((x + since) / 2)
        depth += step
        since = x if depth <= spare and (since is None or depth + 1 > spare) else since
        if depth > spare:
            since = None
    return gutters


def _split(line: Sequence[Word], columns: Sequence[float]) -> list[str]:
    cells: list[list[str]] = [[] for _ in range(len(columns) - 1)]
    for word in line:
        cells[_slot(columns, (word.x0 + word.x1) / 2) or 0].append(word.text)
    return [" ".join(cell) for cell in cells]


def _run(lines: Sequence[TextLine], at: int) -> tuple[int, Table | None]:
    """Return how many lines from `at` on stand in the same columns, and their table if any."""
    columns: list[tuple[float, float]] = []
    rows: list[list[str]] = []
    several = 0
    taken = 0
    for line in lines[at:]:
        before = lines[at + taken - 1] if taken else line
        if line.mono or (taken and not 0 <= line.y - before.y <= 2.6 * line.size):
            break
        cells = _wide_cells(line)
        if not taken and len(cells) < 2:
            break
        places = [_column(columns, cell) for cell in cells]
        if columns and (len(set(places)) < len(places) or -1 in places):
            break
        if len(cells) == 1 and (places[0] == 0 or places[0] is None):
            break  # a paragraph below the table
        for cell, place in zip(cells, places, strict=True):
            if place is None:
                if rows:
                    return taken, _columns_table(lines[at : at + taken], rows, columns, several)
                columns.append((cell[0].x0, cell[-1].x1))
            else:
                left, right = columns[place]
                columns[place] = (min(left, cell[0].x0), max(right, cell[-1].x1))
        _add_row(rows, cells, [place if place is not None else i for i, place in enumerate(places)])
        several += len(cells) >= 2
        taken += 1
    return taken, _columns_table(lines[at : at + taken], rows, columns, several)


def _wide_cells(line: TextLine) -> list[list[Word]]:
    cells: list[list[Word]] = []
    for word in line.words:
        if cells and word.x0 - cells[-1][-1].x1 < WIDE_GAP * word.size:
            cells[-1].append(word)
        else:
            cells.append([word])
    return cells


def _column(columns: Sequence[tuple[float, float]], cell: Sequence[Word]) -> int | None:
    """Return the column that a cell stands in: None for none yet, -1 for more than one."""
    x0, x1 = cell[0].x0, cell[-1].x1
    met = [at for at, (left, right) in enumerate(columns) if x0 < right + 1 and x1 > left - 1]
    if not met:
        return None
    return met[0] if len(met) == 1 else -1


def _add_row(rows: list[list[str]], cells: Sequence[Sequence[Word]], places: Sequence[int]) -> None:
    texts = [" ".join(word.text for word in cell) for cell in cells]
    if rows and 0 not in places:  # goes on with cells of the row above
        for place, text in zip(places, texts, strict=True):
            rows[-1][place] = f"{rows[-1][place]} {text}".strip()
        return
    width = len(rows[0]) if rows else len(cells)
    row = [""] * width
    for place, text in zip(places, texts, strict=True):
        row[place] = text
    rows.append(row)


def _columns_table(
    lines: Sequence[TextLine],
    rows: Sequence[Sequence[str]],
    columns: Sequence[tuple[float, float]],
    several: int,
) -> Table | None:
    if several < MIN_ROWS or len(rows) < MIN_ROWS or len(columns) < 2:
        return None
    top, bottom = lines[0].y - lines[0].size, lines[-1].y
    return Table(tuple(map(tuple, rows)), columns[0][0], columns[-1][1], top, bottom)
