"""Plain text, whose headings are only guessed where they can hardly be anything else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from ingest.readers import Block, ParsedFile
from ingest.readers.blocks import BlockOutline, fence, prose, short
from kb.errors import RecordError

MAX_HEADING_WORDS = 12
_RULE = re.compile(r"([=\-~^*#])\1{2,}\s*$")
_NUMBERED = re.compile(r"(\d{1,2}(?:\.\d{1,3}){0,4})\.?\s{1,4}[A-Z]\S*(?: \S+)*$")
_CAPITALS = re.compile(r"[A-Z][A-Z0-9 ,:/&()\-]{3,}$")
_SENTENCE_END = (".", ",", ";", ":", "?", "!")
_LEADER = re.compile(r"(?:\s?\.){4,}\s*\d+\s*$")


class PlainText:
    """Reads paragraphs, indented listings, and headings that are underlined, numbered or capital."""

    def read(self, text: str, path: str) -> ParsedFile:
        """Read plain text.

        Raises:
            RecordError: it has no words.
        """
        groups = _groups(text)
        title = _title(groups) or PurePosixPath(path).stem
        outline = BlockOutline(title, bare=True)
        headings = [_heading(group) for group in groups]
        for group, found in zip(groups, headings, strict=True):
            if found is not None:
                outline.heading(*found)
            else:
                outline.add(_block(group))
        if all(headings):
            raise RecordError(
                "expected paragraphs, found headings only: write something below them"
            )
        return ParsedFile(kind="document", title=title, body=text, sections=outline.sections())


def _groups(text: str) -> list[list[str]]:
    """Return runs of lines with blank lines between; listings keep the blank lines inside them."""
    groups: list[list[str]] = []
    gap = True
    for raw in text.expandtabs().split("\n"):
        line = raw.rstrip()
        if not line or _LEADER.search(line):  # a line of a table of contents
            gap = True
            continue
        listing = bool(groups) and gap and _is_indented(line) and _is_listing(groups[-1])
        if listing:
            groups[-1].extend(("", line))
        elif gap or _ends(groups[-1]):
            groups.append([line])
        else:
            groups[-1].append(line)
        gap = False
    return groups


def _ends(group: Sequence[str]) -> bool:
    """Say whether a group is a heading with its rule, which no blank line needs to follow."""
    return len(group) == 2 and _is_underlined(group)


def _heading(group: Sequence[str]) -> tuple[int, str] | None:
    if len(group) == 3 and _RULE.match(group[0]) and _is_underlined(group[1:]):
        return 1, group[1]
    if len(group) == 2 and _is_underlined(group):
        return (1 if group[1][0] in "=#*" else 2), group[0]
    if len(group) != 1 or group[0][0] == " " or len(group[0].split()) > MAX_HEADING_WORDS:
        return None
    line = group[0]
    numbered = _NUMBERED.match(line)
    if numbered and not line.endswith(_SENTENCE_END):
        return 1 + numbered[1].count("."), line
    return (1, line) if _CAPITALS.match(line) else None


def _is_underlined(group: Sequence[str]) -> bool:
    line, rule = group
    length = len(line.strip())
    return bool(_RULE.match(rule)) and abs(len(rule) - length) <= max(2, length // 4)


def _is_indented(line: str) -> bool:
    return line.startswith("    ")


def _is_listing(group: Sequence[str]) -> bool:
    return all(_is_indented(line) or not line for line in group)


def _block(group: Sequence[str]) -> Block:
    if not _is_listing(group):
        return prose("\n".join(group))
    margin = min(len(line) - len(line.lstrip()) for line in group if line)
    return fence("\n".join(line[margin:] for line in group))


def _title(groups: Sequence[Sequence[str]]) -> str:
    found = _heading(groups[0]) if groups else None
    return "" if found is None else short(found[1])
