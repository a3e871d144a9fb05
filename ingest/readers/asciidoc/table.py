"""The rows of a table in AsciiDoc."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence

from kb.errors import RecordError

MAX_COLUMNS = 64
_CELL = re.compile(
    r"(?:^|(?<=\s)|(?<=\|))((?:\d+(?:\.\d+)?[+*]|\.\d+\+)?[<^>]?(?:\.[<^>])?[aehlmdsv]?)(?<!\\)\|"
)
_COLUMNS = re.compile(r"""cols\s*=\s*(?:"([^"]*)"|'([^']*)'|([^,\]]+))""")
_SPAN = re.compile(r"(\d+)(?:\.\d+)?([+*])")


def table_rows(lines: Sequence[str], style: str, kind: str) -> list[list[str]]:
    """Return the rows of a table.

    Args:
        lines: between the two rules.
        style: of the attribute line above, which may say how many columns there are.
        kind: first character of the rule: ``|``, ``!`` for a table in a table, ``,`` or ``:``.
    """
    if kind in ",:":
        try:
            return [list(row) for row in csv.reader(lines, delimiter=kind) if row]
        except csv.Error as error:
            raise RecordError(
                f"expected a table of comma-separated values, found one that breaks ({error}): mend it"
            ) from error
    text = "\n".join(line.replace("!", "|") if kind == "!" else line for line in lines)
    width = _declared(style)
    if not width:
        first = next((line for line in text.split("\n") if line.strip()), "")
        width = sum(count for count, _ in _cells(first))
    cells = [cell for count, cell in _cells(text) for cell in [cell] * count]
    width = max(1, width)
    return [cells[at : at + width] for at in range(0, len(cells), width)]


def _cells(text: str) -> list[tuple[int, str]]:
    """Return the cells in order, with the columns that each takes."""
    found = list(_CELL.finditer(text))
    ends = [one.start() for one in found[1:]] + [len(text)]
    cells = []
    for one, end in zip(found, ends, strict=True):
        span = _SPAN.match(one[1])
        cells.append((min(int(span[1]), MAX_COLUMNS) if span else 1, text[one.end() : end].strip()))
    return cells


def _declared(style: str) -> int:
    found = _COLUMNS.search(style)
    if found is None:
        return 0
    total = 0
    for column in (found[1] or found[2] or found[3] or "").replace(";", ",").split(","):
        many = re.match(r"\s*(\d+)\*", column)
        total += int(many[1]) if many else 1
    return min(total, MAX_COLUMNS)
