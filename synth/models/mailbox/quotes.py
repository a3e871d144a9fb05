"""What letters and answers of one folder hold: later letters name it and do not repeat it."""

from __future__ import annotations

import re
from collections.abc import Iterator

_FORM = "# Answer"  # the section that says in what form an answer comes: it is always there
# What ends a part of a document, see `kb.retrieval.multi_query.pages`.
_EXCERPT = re.compile(r"\s*\[(?:in brief|\d+ more sections of this record are not shown)\]$")
_BREAK = re.compile(r"\n\s*\n")
_LEAST = 200  # characters of a quoted text that is worth a look into another file
# As `synth.quoting.fence` writes them: nothing inside closes one.
_OPEN = re.compile(r"^(?P<bar>`{3,})[A-Za-z0-9_+#.-]*$")

Section = list[tuple[str, str | None]]  # lines, and quotes as one with what is inside


class Quotes:
    """Knows where each quoted text, and each section of a prompt, stood first."""

    def __init__(self) -> None:
        self._places: dict[str, tuple[int, str]] = {}

    def add(self, text: str, number: int, place: str) -> None:
        """Remember what `text` quotes, and its sections.

        Args:
            number: of the letter that it belongs to; earlier ones come first.
            place: where it stands, in words.
        """
        for section in _sections(text):
            self.add_one("\n".join(part for part, _ in section), number, place)
            for part, body in section:
                if body is not None and len(part) >= _LEAST:
                    self.add_one(body, number, place)

    def add_one(self, quoted: str, number: int, place: str) -> None:
        """Remember one quoted text."""
        self._places.setdefault(quoted.strip("\n"), (number, place))

    def named(self, text: str, number: int) -> str:
        """Return `text` with what stood in letters or answers before `number` named."""
        return "\n".join(line for one in _sections(text) for line in self._shown(one, number))

    def _shown(self, section: Section, number: int) -> Iterator[str]:
        heading, whole = section[0][0], "\n".join(part for part, _ in section)
        if heading.startswith("# ") and heading != _FORM and len(whole) >= _LEAST:
            place = self._before(whole, number)
            if place is not None:
                yield f"{heading}\n\n[as in {place}]\n"
                return
        for part, body in section:
            found = None if body is None or len(part) < _LEAST else self._before(body, number)
            yield part if found is None else f"[quoted in {found}]"

    def _before(self, quoted: str, number: int) -> str | None:
        found = self._found(quoted.strip("\n"))
        return found[1] if found is not None and found[0] < number else None

    def _found(self, quoted: str) -> tuple[int, str] | None:
        """Return where a text, or a document of which it is an excerpt, was quoted."""
        whole = self._places.get(quoted)
        if whole is not None or not _EXCERPT.search(quoted):
            return whole
        split = _BREAK.split(_EXCERPT.sub("", quoted).strip())
        said = [one for one in split if one and not one.startswith("#")]
        places = self._places.items() if said else ()
        return next((place for text, place in places if all(one in text for one in said)), None)


def _sections(text: str) -> Iterator[Section]:
    """Yield the sections of a prompt, each with its heading as the first part."""
    section: Section = []
    for part, body in _parts(text):
        if body is None and part.startswith("# ") and section:
            yield section
            section = []
        section.append((part, body))
    yield section


def _parts(text: str) -> Iterator[tuple[str, str | None]]:
    """Yield the lines of a text; a fenced block comes as one, with what is inside."""
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        opened = _OPEN.match(lines[at])
        end = None
        if opened is not None:
            after = range(at + 1, len(lines))
            end = next((number for number in after if lines[number] == opened["bar"]), None)
        if end is None:
            yield lines[at], None
            at += 1
        else:
            yield "\n".join(lines[at : end + 1]), "\n".join(lines[at + 1 : end])
            at = end + 1
