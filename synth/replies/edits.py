"""Edits in a model's reply: search-and-replace blocks, applied exactly or refused with the reason."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import SequenceMatcher

EXAMPLE = """<<<<<<< SEARCH
lines of the program, copied as they are
=======
what stands in their place
>>>>>>> REPLACE"""
_SEARCH = re.compile(r"^[ \t]*<{5,9}[ \t]*SEARCH\b.*$")
_MIDDLE = re.compile(r"^[ \t]*={5,9}[ \t]*$")
_REPLACE = re.compile(r"^[ \t]*>{5,9}[ \t]*REPLACE\b.*$")
_BLOCKS = 60  # a reply with more is no edit
_LINES = 4000  # of a program in which a near line is looked for


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One replacement; both parts are whole lines."""

    search: str
    replace: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """What a reply's edits made of a program.

    Attributes:
        source: None where they could not be applied.
        problem: why not, in one line that a model can act upon.
    """

    source: str | None
    problem: str = ""


def has_edits(text: str) -> bool:
    """Say whether a reply holds, or begins, a search-and-replace block."""
    return any(_SEARCH.match(line) for line in text.split("\n"))


def without_edits(text: str) -> str:
    """Return a reply without its blocks."""
    kept, inside = [], False
    for line in text.split("\n"):
        inside = inside or bool(_SEARCH.match(line))
        if not inside:
            kept.append(line)
        inside = inside and not _REPLACE.match(line)
    return "\n".join(kept)


def apply_edits(text: str, program: str) -> Edited:
    """Apply the blocks of a reply to `program`, in order.

    Every first part must stand in the program exactly once, white space included: a guess at what a
    model meant would judge a program that nobody wrote.
    """
    found = _blocks(text)
    if isinstance(found, str):
        return Edited(source=None, problem=found)
    changed = program
    for number, edit in enumerate(found, start=1):
        problem = _trouble(edit, changed)
        if problem:
            return Edited(source=None, problem=f"edit {number} of {len(found)} {problem}")
        # Whole lines: a first part may not begin or end inside one.
        changed = f"\n{changed}\n".replace(f"\n{edit.search}\n", _lines(edit.replace), 1)[1:-1]
    if changed.strip() == program.strip():
        return Edited(source=None, problem="the edits change nothing: change the program")
    return Edited(source=changed.strip("\n") + "\n")


def _lines(text: str) -> str:
    return f"\n{text}\n" if text else "\n"


def _trouble(edit: Edit, program: str) -> str:
    if not edit.search.strip():
        return "has an empty first part: copy the lines that it replaces"
    # A line that ends one match begins no other, so overlapping ones are counted by a look-ahead.
    count = len(re.findall(f"(?=\n{re.escape(edit.search)}\n)", f"\n{program}\n"))
    if count == 1:
        return ""
    if count:
        return f"fits {count} places: copy more lines around the one that is meant"
    return f"fits no place of the program: {_nearest(edit.search, program)}"


def _nearest(search: str, program: str) -> str:
    """Say what comes closest to the first line of a part that is not there."""
    lines = program.split("\n")[:_LINES]
    wanted = search.split("\n")
    missing = next((line for line in wanted if line.strip() and line not in lines), None)
    if missing is None:
        return "its lines do not follow each other there; copy them as they are"
    bare = missing.strip()
    spaced = next((n for n, line in enumerate(lines, 1) if line.strip() == bare), None)
    if spaced is not None:
        return f"line {spaced} has other white space than {_shown(missing)}"
    matcher = SequenceMatcher(a="", b=bare, autojunk=False)
    best, score = "", 0.6
    for line in lines:
        matcher.set_seq1(line.strip())
        if matcher.quick_ratio() > score and matcher.ratio() > score:
            best, score = line, matcher.ratio()
    there = f"; the nearest is {_shown(best)}" if best else ""
    return f"it has no line {_shown(missing)}{there}"


def _shown(line: str) -> str:
    return repr(line.strip()[:70])


def _blocks(text: str) -> list[Edit] | str:
    """Return the blocks of a reply, or what is wrong with them."""
    found: list[Edit] = []
    part: list[str] | None = None
    search: str | None = None
    for line in text.split("\n"):
        if _SEARCH.match(line):
            if part is not None:
                return f"edit {len(found) + 1} is not closed: end it with >>>>>>> REPLACE"
            part, search = [], None
        elif part is not None and search is None and _MIDDLE.match(line):
            search, part = "\n".join(part), []
        elif part is not None and search is not None and _REPLACE.match(line):
            found.append(Edit(search=search, replace="\n".join(part)))
            part = None
        elif part is not None:
            part.append(line)
    if part is not None:
        where = "=======" if search is None else ">>>>>>> REPLACE"
        return f"edit {len(found) + 1} is cut off before its {where}: write shorter edits"
    if len(found) > _BLOCKS:
        return f"{len(found)} edits are too many: give the whole file"
    return found or "no search-and-replace block was found"
