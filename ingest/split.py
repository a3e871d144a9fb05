"""From sections to passages that an encoder can read and a prompt can afford."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

from ingest.readers import Block, Section
from kb.store import Piece

MAX_TOKENS = 350
MAX_WORDS = 220  # of prose: the encoder reads 256 word pieces, breadcrumb included
MAX_WHOLE = 512  # tokens that a fence, a table or a function may have and stay whole

Count = Callable[[str], int]


def split(sections: Sequence[Section], count: Count) -> tuple[Piece, ...]:
    """Cut sections into passages.

    Blocks of one section are put together while they fit. A fence, a table or a function is cut
    only where it is too large for a passage of its own, and then at blank lines or rows, each part
    complete with its fence or its header.

    Args:
        count: tokens of a text.
    """
    size = lru_cache(maxsize=4096)(count)
    pieces: list[Piece] = []
    for section in sections:
        name = " > ".join(section.trail)
        for text in _pack(section.blocks, size):
            pieces.append(Piece(section=name, text=text, tokens=size(text)))
    return tuple(pieces)


def _pack(blocks: Sequence[Block], count: Count) -> Iterator[str]:
    kept: list[str] = []
    for block in blocks:
        for text in _parts(block, count):
            if kept and not _fits("\n\n".join((*kept, text)), count):
                yield "\n\n".join(kept)
                kept = []
            kept.append(text)
    if kept:
        yield "\n\n".join(kept)


def _fits(text: str, count: Count) -> bool:
    return len(text.split()) <= MAX_WORDS and count(text) <= MAX_TOKENS


def _parts(block: Block, count: Count) -> list[str]:
    if block.kind == "prose":
        return [block.text] if _fits(block.text, count) else _split_prose(block.text, count)
    if count(block.text) <= MAX_WHOLE:
        return [block.text]
    lines = block.text.split("\n")
    if block.kind == "fence" and lines[0].lstrip().startswith(("```", "~~~")):
        opening = lines[0].lstrip()
        mark = opening[: len(opening) - len(opening.lstrip(opening[0]))]
        inner = lines[1:-1] if lines[-1].strip().startswith(mark) else lines[1:]
        return [f"{lines[0]}\n{text}\n{mark}" for text in _split_lines(inner, count)]
    if block.kind == "table":
        head = "\n".join(lines[:2])
        return [f"{head}\n{text}" for text in _split_lines(lines[2:], count)]
    return _split_lines(lines, count)


def _split_prose(text: str, count: Count) -> list[str]:
    from semantic_text_splitter import MarkdownSplitter

    def size(part: str) -> int:
        return max(count(part), len(part.split()) * MAX_TOKENS // MAX_WORDS)

    return MarkdownSplitter.from_callback(size, MAX_TOKENS).chunks(text)


def _split_lines(lines: Sequence[str], count: Count) -> list[str]:
    """Cut lines into texts of at most `MAX_TOKENS`, at blank lines where there are some."""
    parts: list[str] = []
    kept: list[str] = []
    used = 0
    for group in _groups(lines, count):
        cost = sum(count(line) + 1 for line in group)
        if kept and used + cost > MAX_TOKENS:
            parts.append("\n".join(kept).strip("\n"))
            kept, used = [], 0
        kept.extend(group)
        used += cost
    parts.append("\n".join(kept).strip("\n"))
    return [part for part in parts if part.strip()]


def _groups(lines: Sequence[str], count: Count) -> Iterator[list[str]]:
    """Yield runs of lines between blank ones, or single lines where a run is too long."""
    group: list[str] = []
    for line in [*lines, ""]:
        group.append(line)
        if not line.strip():
            if sum(count(one) + 1 for one in group) <= MAX_TOKENS:
                yield group
            else:
                yield from ([part] for one in group for part in _split_long(one, count))
            group = []


def _split_long(line: str, count: Count) -> list[str]:
    """Cut one line that is a passage by itself, as minified sources have."""
    if count(line) < MAX_TOKENS:
        return [line]
    half = len(line) // 2
    return [*_split_long(line[:half], count), *_split_long(line[half:], count)]
