"""AsciiDoc: headings, listings, tables, admonitions and paragraphs, as written.

No library of the language reads it without running Ruby. This reader knows the blocks that
manuals are made of, and leaves inline markup almost as it stands. Nothing is included, and no
condition or macro is evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from ingest.readers import Block, Reading
from ingest.readers.asciidoc.table import table_rows
from ingest.readers.blocks import Outline, fence, prose, short, table
from kb.errors import RecordError

_RULES = "=-~^+"  # under titles of two lines, by level
MAX_REFERENCES = 20  # attributes that one line may name
_HEADING = re.compile(r"(={1,6}|#{1,6})\s+(\S.*)$")
_ATTRIBUTE = re.compile(r":(!?[\w-]+!?):(?:\s+(.*))?$")
_REFERENCE = re.compile(r"\{([\w-]+)\}")
_STYLE = re.compile(r"\[([^\]]*)\]\s*$")
_DIRECTIVE = re.compile(r"(include|ifdef|ifndef|ifeval|endif|toc|image|video|audio)::")
_ADMONITION = re.compile(r"(NOTE|TIP|IMPORTANT|WARNING|CAUTION):\s+")
_FENCES = re.compile(r"(-{4,}|\.{4,}|\+{4,}|/{4,}|`{3,})(\w*)\s*$")
_FRAMES = re.compile(r"(={4,}|\*{4,}|_{4,}|--|<<<|'{3,})\s*$")
_TABLE = re.compile(r"([|,:!])={3,}\s*$")
_TITLE = re.compile(r"\.([A-Za-z\[`].*)$")
_TERM = re.compile(r"^(\S.*?)::(?:\s+|$)", re.MULTILINE)
_ROLE = re.compile(r"\[\.?([\w.-]*)\]#{1,2}([^#\n]+)#{1,2}")
_LINK = re.compile(r"(?:link:|https?://|xref:)([^\s\[\]]*)\[([^\]]*)\]")
_CROSS = re.compile(r"<<([^,>]+)(?:,\s*([^>]+))?>>")
_ANCHOR = re.compile(r"\[\[[^\]]*\]\]|(?:indexterm|footnote):\[[^\]]*\]|\(\(\([^)]*\)\)\)")


class AsciiDoc:
    """Reads the block level of AsciiDoc."""

    def read(self, text: str, path: str) -> Reading:
        """Read an AsciiDoc file by itself: what it includes is not read.

        Raises:
            RecordError: it has no text.
        """
        page = _Page(text.split("\n"))
        parts = list(page.parts())
        first = next((part for part in parts if isinstance(part, tuple)), (0, ""))
        title = short(first[1]) if first[0] == 1 else ""
        title = title or PurePosixPath(path).stem
        outline = Outline(title)
        for part in parts:
            if isinstance(part, tuple):
                outline.heading(*part)
            else:
                outline.add(part)
        sections = outline.sections()
        if not sections:
            raise RecordError(
                "expected paragraphs, found none (what is included is not read): ingest the included files"
            )
        return Reading(kind="document", title=title, body=text, sections=sections)


class _Page:
    """The lines of a file, read once from top to bottom."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._at = 0
        self._values: dict[str, str] = {}
        self._style = ""
        self._paragraph: list[str] = []

    def parts(self) -> Iterator[tuple[int, str] | Block]:
        """Yield headings as level and text, and blocks."""
        while self._at < len(self._lines):
            line = self._lines[self._at].rstrip()
            self._at += 1
            special = self._special(line)
            if special is None:
                self._paragraph.append(line)
                continue
            yield self._close()
            yield from special
        yield self._close()

    def _special(self, line: str) -> list[tuple[int, str] | Block] | None:
        """Return what a line begins that is no paragraph; None for a line of one."""
        if len(self._paragraph) == 1 and _is_rule(line, self._paragraph[0]):
            return [(1 + _RULES.index(line[0]), self._inline(self._paragraph.pop()))]
        if not line.strip() or line == "+" or _DIRECTIVE.match(line) or _FRAMES.match(line):
            return []
        if line.startswith("//") and not line.startswith("////"):
            return []
        opened = _FENCES.match(line)
        if opened:
            return self._listing(opened[1], opened[2])
        if _TABLE.match(line):
            rows = table_rows(self._until(line), self._style, line[0])
            self._style = ""
            return [table([[self._inline(cell) for cell in row] for row in rows])]
        return None if self._paragraph else self._opening(line)

    def _opening(self, line: str) -> list[tuple[int, str] | Block] | None:
        """Return what only stands at the beginning of a block."""
        heading = _HEADING.match(line)
        if heading:
            self._style = ""
            return [(len(heading[1]), self._inline(heading[2]))]
        value = _ATTRIBUTE.match(line)
        if value:
            self._values[value[1].strip("!")] = (value[2] or "").strip()
            return []
        style = _STYLE.match(line)
        if style or _ANCHOR.fullmatch(line):
            self._style = style[1] if style else self._style
            return []
        title = _TITLE.match(line)
        if title:
            return [prose(f"**{self._inline(title[1])}**")]
        return None

    def _listing(self, mark: str, language: str) -> list[tuple[int, str] | Block]:
        code = "\n".join(self._until(mark))
        style, self._style = self._style, ""
        if mark[0] == "/":
            return []
        if mark[0] == "+":  # raw HTML, or a formula
            return [fence(code, "latex")] if "stem" in style or "latexmath" in style else []
        words = [word.strip() for word in style.split(",")]
        if not language and words[0].split("%")[0] in {"source", ""} and len(words) > 1:
            language = words[1]
        return [fence(code, language if re.fullmatch(r"[\w+#-]*", language) else "")]

    def _until(self, mark: str) -> list[str]:
        inside: list[str] = []
        while self._at < len(self._lines):
            line = self._lines[self._at].rstrip()
            self._at += 1
            if line == mark.rstrip():
                break
            inside.append(line)
        return inside

    def _close(self) -> Block:
        lines, self._paragraph = self._paragraph, []
        if lines and all(line.startswith(" ") for line in lines) and not _is_list(lines[0]):
            margin = min(len(line) - len(line.lstrip()) for line in lines)
            return fence("\n".join(line[margin:] for line in lines))
        text = self._inline("\n".join(line.removesuffix(" +") for line in lines))
        if self._style in {"NOTE", "TIP", "IMPORTANT", "WARNING", "CAUTION"} and text:
            text = f"{self._style}: {text}"
        if text:
            self._style = ""
        admonition = _ADMONITION.match(text)
        return prose(
            f"**{admonition[1].title()}:** {text[admonition.end() :]}" if admonition else text
        )

    def _inline(self, text: str) -> str:
        text = _ANCHOR.sub("", text)
        text = _ROLE.sub(lambda found: found[2] if "`" in found[2] else f"`{found[2]}`", text)
        text = _TERM.sub(lambda found: f"**{found[1].strip('*_')}**: ", text)
        text = _LINK.sub(lambda found: found[2].split(",")[0] or found[1], text)
        text = _CROSS.sub(lambda found: found[2] or found[1], text)
        # Values are put in once, so that one that names itself does not grow. One that is defined
        # elsewhere is most often a name that links to its page.
        return _REFERENCE.sub(
            lambda found: self._values.get(found[1], found[1])[:200], text, count=MAX_REFERENCES
        )


def _is_rule(line: str, above: str) -> bool:
    """Say whether a line underlines the one above it, as titles of two lines are written."""
    same = len(line) >= 3 and line[0] in _RULES and line == line[0] * len(line)
    return same and abs(len(line) - len(above)) <= 2


def _is_list(line: str) -> bool:
    return bool(re.match(r"\s*(?:[*\-.]+|\d+\.)\s", line))
