"""Documents as a prompt shows them: records whole, long ones and plain documents by their best passages."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from kb.records.patterns import FOLDERS
from kb.records.types import Passage
from kb.retrieval.multi_query.merge import MergedDocument

WHOLE = 1_000  # tokens up to which a record is shown whole
EXCERPT = 500  # tokens of the best passages of a longer one, or of a plain document
BRIEF = 100  # tokens of a document of which the beginning is enough
# The end of a sentence, of a part of one or of a paragraph; the number of a list's entry ends nothing.
_END = re.compile(r"(?<=[.!?;])(?<!^\d\.)(?<!^\d\d\.)\s+|\s*\n\n\s*", re.MULTILINE)


def brief(
    found: MergedDocument,
    passages: Sequence[Passage],
    best: Mapping[str, int],
    count: Callable[[str], int],
) -> Passage:
    """Return the beginning of a document as one passage: what a record is about, in its first sentences.

    Of a guide or a plain document, which are about several things, the passage that answered best begins.
    """
    ranked = sorted(passages, key=lambda one: best.get(one.id, len(best)))
    first = passages[0] if found.kind in ("idea", "kernel") else ranked[0]
    text = _beginning(first.text, count)
    if len(passages) > 1 or text != first.text:
        text += " [in brief]"
    return replace(first, section=first.section.split(" > ")[0], text=text, tokens=count(text))


def _beginning(text: str, count: Callable[[str], int]) -> str:
    """Return the first sentences of a text that count at most `BRIEF` tokens, at least one."""
    if count(text) <= BRIEF:
        return text
    words = text.partition("\n```")[0]  # code is shown whole or not at all
    ends = [end for met in _END.finditer(words) if text[(end := met.start()) - 1] != ":"]
    ends = ends or [len(text)]
    fitting = [end for end in ends if count(text[:end]) <= BRIEF]
    return text[: fitting[-1] if fitting else ends[0]]


def page(
    found: MergedDocument,
    passages: Sequence[Passage],
    best: Mapping[str, int],
    count: Callable[[str], int],
) -> Passage:
    """Return a document as one passage.

    Args:
        passages: of the document, in its order.
        best: places of those that answered, by their identity; 0 is the best.
        count: tokens of a text.
    """
    total = sum(one.tokens for one in passages)
    ranked = sorted(passages, key=lambda one: best.get(one.id, len(best)))
    chosen = passages if found.kind in FOLDERS and total <= WHOLE else _excerpt(ranked)
    kept = [one for one in passages if one in chosen]
    parts, before = [], ""
    for one in kept:
        # A section that is several passages has its heading once.
        parts.append(_titled(one, found.kind in FOLDERS and one.section != before))
        before = one.section
    text = "\n\n".join(parts)
    left = len(passages) - len(kept)
    if found.kind in FOLDERS and left:
        text += f"\n\n[{left} more sections of this record are not shown]"
    first = ranked[0]
    whole = found.kind in FOLDERS
    return replace(
        first,
        section=first.section.split(" > ")[0] if whole else first.section,
        text=text,
        tokens=count(text),
        flags=tuple(dict.fromkeys(flag for one in kept for flag in one.flags)),
    )


def _excerpt(ranked: Sequence[Passage]) -> list[Passage]:
    """Return the best passages that fit, at least one."""
    kept: list[Passage] = []
    left = EXCERPT
    for one in ranked:
        if kept and one.tokens > left:
            continue
        kept.append(one)
        left -= one.tokens
    return kept


def _titled(passage: Passage, titled: bool) -> str:
    heading = passage.section.rpartition(" > ")[2] if " > " in passage.section else ""
    # Short sections that share a passage carry their headings in its text.
    own = passage.text.startswith("**")
    return f"## {heading}\n\n{passage.text}" if titled and heading and not own else passage.text
