"""Foreign text made safe to look at: models, documents, compilers and file names say what they like.

HTML is escaped by the templates, and `kb.visible` shows what hides in a line. Here goes what both leave:
texts that are too long for a page, and names that stand in addresses.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from hashlib import blake2b

_SAFE_NAME = re.compile(r"[a-z0-9](?:[a-z0-9_]|-(?=[a-z0-9])){0,79}")
_NOT_SLUG = re.compile(r"[^a-z0-9]+")
LONG_LINE = 2_000  # characters of a line that a page shows
LONG_TEXT = 200_000  # characters of a text that a page shows


def shortened(text: str, most: int = LONG_TEXT) -> str:
    """Return `text` cut to `most` characters and its lines to `LONG_LINE`, saying what is left out."""
    if len(text) <= LONG_LINE:
        return text
    rest = len(text) - most
    kept = text[:most] if rest > 0 else text
    if any(len(line) > LONG_LINE for line in kept.split("\n")):
        kept = "\n".join(map(_cut_line, kept.split("\n")))
    return (
        f"{kept}\n[… {rest:,} more characters; the JSON of this page has all]" if rest > 0 else kept
    )


def _cut_line(line: str) -> str:
    rest = len(line) - LONG_LINE
    return f"{line[:LONG_LINE]} [… {rest:,} more characters]" if rest > 0 else line


def one_line(text: str, most: int = 160) -> str:
    """Return the beginning of a text on one line."""
    line = " ".join(text[: 4 * most].split())
    return line if len(line) <= most else line[: most - 1] + "…"


def address(name: str) -> str:
    """Return what stands for `name` in an address or a file name: itself where it is harmless.

    Two names never share one, and none leads out of a folder or hides an ending.
    """
    if _SAFE_NAME.fullmatch(name):
        return name
    slug = _NOT_SLUG.sub("-", name[:200].lower()).strip("-")[:48].strip("-")
    digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=5).hexdigest()
    return f"{slug}--{digest}" if slug else f"x--{digest}"


def moment(seconds: float | None) -> str:
    """Return a time of day in UTC, to the minute."""
    if seconds is None:
        return ""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")
    except (OverflowError, OSError, ValueError):
        return ""


def ratio(value: float) -> str:
    """Return a speed-up with the digits that it deserves."""
    return f"{value:.1f}x" if abs(value) >= 100 else f"{value:.2f}x"
