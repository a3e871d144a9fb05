"""What letters and answers of one folder quote: later letters name it and do not repeat it."""

from __future__ import annotations

import re
from collections.abc import Iterator

_BRIEF = "[in brief]"  # what ends the beginning of a document, see `kb.retrieval.multi_query.pages`
_LEAST = 200  # characters of a quoted text that is worth a look into another file
# As `synth.quoting.fence` writes them: nothing inside closes one.
_OPEN = re.compile(r"^(?P<bar>`{3,})[A-Za-z0-9_+#.-]*$")


class Quotes:
    """Knows where each quoted text stood first."""

    def __init__(self) -> None:
        self._places: dict[str, tuple[int, str]] = {}

    def add(self, text: str, number: int, place: str) -> None:
        """Remember what `text` quotes.

        Args:
            number: of the letter that it belongs to; earlier ones come first.
            place: where it stands, in words.
        """
        for part, body in _parts(text):
            if body is not None and len(part) >= _LEAST:
                self.add_one(body, number, place)

    def add_one(self, quoted: str, number: int, place: str) -> None:
        """Remember one quoted text."""
        self._places.setdefault(quoted.strip("\n"), (number, place))

    def named(self, text: str, number: int) -> str:
        """Return `text` with the quotes that stood in letters or answers before `number` named."""
        shown = []
        for part, body in _parts(text):
            found = self._found(body.strip("\n")) if body is not None else None
            if found is not None and found[0] < number and len(part) >= _LEAST:
                part = f"[quoted in {found[1]}]"  # noqa: PLW2901 - the name stands for it
            shown.append(part)
        return "\n".join(shown)

    def _found(self, quoted: str) -> tuple[int, str] | None:
        """Return where a text, or the document that it is the beginning of, was quoted."""
        whole = self._places.get(quoted)
        if whole is not None or not quoted.endswith(_BRIEF):
            return whole
        beginning = quoted.removesuffix(_BRIEF).strip()
        return next((place for text, place in self._places.items() if beginning in text), None)


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
