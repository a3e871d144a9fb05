"""From sections to passages that an encoder can read and a prompt can afford."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from ingest.readers import Block, Section
from kb.store.documents import Piece

# Tokens of cl100k_base. The encoder reads 256 word pieces, of which technical prose has 1.2 to a
# token: what is beyond has no part in the vector.
MAX_TOKENS = 210  # of a passage with its breadcrumb
MAX_DOCUMENT = 400  # of a plain document that stays whole
MAX_WHOLE = 512  # of a listing, a table or a function that stays whole
MAX_PART = 350  # of the parts of a longer one
TINY = 45  # of a section that says too little to stand alone
LEAD = 60  # of a paragraph that goes along with the listing or table after it

MAX_NAMES = 100  # characters of the headings that a joined section is named by

MAX_PROSE = 20_000  # characters that are split at once

Count = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class _Text:
    """A stretch of a section that is not cut any more."""

    text: str
    whole: bool  # a listing or a table
    pages: tuple[int, ...]  # first and last, as far as they are known
    flags: tuple[str, ...]


def split(sections: Sequence[Section], count: Count) -> tuple[Piece, ...]:
    """Cut sections into passages.

    Blocks of one section are put together while they fit, and so are neighbouring sections that
    are tiny. A fence, a table or a function is cut only where
    it is too large for a passage of its own, and then at blank lines or rows, each part complete
    with its fence or its header.

    Args:
        count: tokens of a text.
    """
    size = lru_cache(maxsize=4096)(count)
    pieces: list[Piece] = []
    for section in _joined(sections, size):
        name = " > ".join(section.trail)
        room = max(MAX_TOKENS - size(name), MAX_TOKENS // 2)
        texts = (text for block in section.blocks for text in _texts(block, room, size))
        pieces.extend(_piece(name, group, size) for group in _pack(texts, room, size))
    return tuple(pieces)


def keep_whole(sections: Sequence[Section], count: Count) -> Piece | None:
    """Return a short document as one passage, None for one that is to be cut.

    A note or a rule is asked for by words of all its sections together.
    """
    size = lru_cache(maxsize=4096)(count)
    if not _is_short(sections, size):
        return None
    section = _one(sections, sections[0].trail[:1])
    texts = [text for block in section.blocks for text in _texts(block, MAX_DOCUMENT, size)]
    return _piece(" > ".join(section.trail), texts, size)


def _piece(section: str, texts: Sequence[_Text], count: Count) -> Piece:
    text = _together(texts)
    pages = [page for one in texts for page in one.pages]
    flags = dict.fromkeys(flag for one in texts for flag in one.flags)
    return Piece(
        section=section,
        text=text,
        tokens=count(text),
        pages=(min(pages), max(pages)) if pages else None,
        flags=tuple(flags),
    )


def _together(texts: Sequence[_Text]) -> str:
    return "\n\n".join(one.text for one in texts)


def _joined(sections: Sequence[Section], count: Count) -> Iterator[Section]:
    """Yield sections, runs of tiny ones with the same heading above them as one."""
    run: list[Section] = []
    used = 0
    for section in sections:
        cost = _cost(section, count)
        tiny = len(section.trail) > 1 and cost <= TINY
        same = bool(run) and run[0].trail[:-1] == section.trail[:-1]
        if run and not (tiny and same and used + cost <= MAX_TOKENS // 2):
            yield _one(run, run[0].trail[:-1])
            run, used = [], 0
        if tiny:
            run.append(section)
            used += cost
        else:
            yield section
    if run:
        yield _one(run, run[0].trail[:-1])


def _cost(section: Section, count: Count) -> int:
    """Return the tokens of a section, or more than is tiny where it is code."""
    if any(block.kind == "code" for block in section.blocks):
        return TINY + 1
    return count(section.trail[-1]) + sum(count(block.text) for block in section.blocks)


def _is_short(sections: Sequence[Section], count: Count) -> bool:
    """Say whether sections of one title, none of them code, are short enough to stay together."""
    if len({section.trail[:1] for section in sections}) != 1 or len(sections) == 1:
        return False
    left = MAX_DOCUMENT - 2 * count(", ".join(section.trail[-1] for section in sections))
    for section in sections:
        if any(block.kind == "code" for block in section.blocks):
            return False
        left -= sum(count(block.text) for block in section.blocks)
        if left < 0:
            return False
    return True


def _one(run: Sequence[Section], above: tuple[str, ...]) -> Section:
    """Return sections below the heading `above` as one, their own headings in its text."""
    if len(run) == 1:
        return run[0]
    blocks: list[Block] = []
    names: list[str] = []
    for section in run:
        if section.trail == above:
            blocks += section.blocks
            continue
        names.append(section.trail[-1])
        first, *rest = section.blocks
        heading = f"**{section.trail[-1]}**"
        if first.kind == "prose":
            blocks.append(replace(first, text=f"{heading}: {first.text}"))
        else:
            blocks += [Block(text=heading, page=first.page), first]
        blocks += rest
    named = ", ".join(names)
    trail = (*above, named) if len(named) <= MAX_NAMES else above
    return Section(trail=trail, blocks=tuple(blocks))


def _pack(texts: Iterator[_Text], room: int, count: Count) -> Iterator[list[_Text]]:
    kept: list[_Text] = []
    for text in texts:
        if kept and count(_together([*kept, text])) > room:
            lead = _lead(kept, text, count)
            if len(kept) > len(lead):
                yield kept[: len(kept) - len(lead)]
            kept = lead
        kept.append(text)
    if kept:
        yield kept


def _lead(kept: Sequence[_Text], text: _Text, count: Count) -> list[_Text]:
    """Return the paragraph that says what the listing or table `text` is, where they fit."""
    last = kept[-1]
    if not text.whole or last.whole or count(last.text) > LEAD:
        return []
    return [last] if count(_together([last, text])) <= MAX_WHOLE else []


def _texts(block: Block, room: int, count: Count) -> list[_Text]:
    whole = block.kind != "prose"
    parts = _parts(block, room, count)
    pages = tuple(page for page in (block.page, block.end) if page is not None)
    return [_Text(text, whole, pages, block.flags) for text in parts]


def _parts(block: Block, room: int, count: Count) -> list[str]:
    if block.kind == "prose":
        return [block.text] if count(block.text) <= room else _split_prose(block.text, room, count)
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
        if count(head) > MAX_PART // 3:  # a first row of prose is no header to repeat
            return _split_lines(lines, count)
        return [f"{head}\n{text}" for text in _split_lines(lines[2:], count)]
    return _split_lines(lines, count)


def _split_prose(text: str, room: int, count: Count) -> list[str]:
    from semantic_text_splitter import MarkdownSplitter

    splitter = MarkdownSplitter.from_callback(count, room)
    return [chunk for part in _manageable(text) for chunk in splitter.chunks(part)]


def _manageable(text: str) -> Iterator[str]:
    """Cut a paragraph of hundreds of pages first: the splitter counts what is left again and again."""
    while len(text) > MAX_PROSE:
        end = max(text.rfind(mark, MAX_PROSE // 2, MAX_PROSE) for mark in ("\n", " "))
        end = end + 1 if end > 0 else MAX_PROSE
        yield text[:end]
        text = text[end:]
    yield text


def _split_lines(lines: Sequence[str], count: Count) -> list[str]:
    """Cut lines into texts of at most `MAX_PART`, at blank lines where there are some."""
    parts: list[str] = []
    kept: list[str] = []
    used = 0
    for group in _groups(lines, count):
        cost = sum(count(line) + 1 for line in group)
        if kept and used + cost > MAX_PART:
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
            if sum(count(one) + 1 for one in group) <= MAX_PART:
                yield group
            else:
                yield from ([part] for one in group for part in _split_long(one, count))
            group = []


def _split_long(line: str, count: Count) -> list[str]:
    """Cut one line that is a passage by itself, as minified sources have."""
    if count(line) < MAX_PART:
        return [line]
    half = len(line) // 2
    return [*_split_long(line[:half], count), *_split_long(line[half:], count)]
