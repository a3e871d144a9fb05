"""Long functions cut between their statements, each part under the function's signature."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from kb.tokens import count_tokens

if TYPE_CHECKING:
    from tree_sitter import Node

WHOLE = 512  # tokens that a function may have and stay whole
PART = 330  # tokens of one part of a longer one, its signature not counted
MAX_SIGNATURE = 500  # characters that are worth repeating
_SURELY_SHORT = WHOLE // 2  # characters: no text has more than two tokens a character
_DEEPEST = 12  # levels of nested statements that are looked into

_BODIES = frozenset({"block", "compound_statement", "field_declaration_list", "declaration_list"})


# What may follow on the line of a statement and still be part of it.
_REST = re.compile(
    rb"[ \t]*+(?:[;,][ \t]*+)?(?:(?://[^\n]*+|/\*[^\n]*?\*/|#[^\n]*+)[ \t]*+)?(?=\r?\n|\Z)"
)


def line_end(source: bytes, end: int) -> int:
    """Return `end`, or the end of its line where only a comment follows."""
    found = _REST.match(source, end)
    return end if found is None else found.end()


def line_start(source: bytes, start: int) -> int:
    """Return where the line of `start` begins."""
    return source.rfind(b"\n", 0, start) + 1


def parts(source: bytes, start: int, end: int, node: Node) -> list[str]:
    """Cut the definition `node` into texts that an encoder can read.

    Where it is short enough it stays whole. The parts of a longer one lose no line; all but the
    first begin with the signature and a comment that says so.

    Args:
        start: where it begins with the comments that lead up to it.
        end: where it ends with a comment on its last line.
    """
    text = _text(source[start:end])
    if len(text) <= _SURELY_SHORT or count_tokens(text) <= WHOLE:
        return [text]
    body = node.child_by_field_name("body")
    if body is None:
        return [text]
    ends = (line_end(source, one) for one in _cuts(body, _DEEPEST))
    cuts = sorted({start, *ends, end})
    head = _signature(source, node, body)
    first, *rest = _packed([source[a:b] for a, b in pairwise(cuts)])
    return [first, *(f"{head}\n{one}" for one in rest)]


def _cuts(body: Node, deepest: int) -> Iterator[int]:
    """Yield where a statement ends, inside long statements too."""
    for child in body.named_children:
        if deepest and child.end_byte - child.start_byte > PART * 2:
            for inner in _bodies(child):
                yield from _cuts(inner, deepest - 1)
        if child.type != "comment":  # which belongs to what follows
            yield child.end_byte


def _bodies(node: Node) -> list[Node]:
    """Return the outermost bodies below a statement: of a loop, of both branches of a condition."""
    found: list[Node] = []
    waiting = list(reversed(node.named_children))
    while waiting:
        child = waiting.pop()
        if child.type in _BODIES:
            found.append(child)
        elif "expression" not in child.type:
            waiting += reversed(child.named_children)
    return found


def _packed(segments: list[bytes]) -> list[str]:
    """Put segments together while they fit; each ends with its line."""
    kept: list[bytes] = []
    used = 0
    packed: list[str] = []
    for segment in segments:
        cost = count_tokens(segment.decode(errors="replace"))
        if kept and used + cost > PART:
            packed.append(_text(b"".join(kept)))
            kept, used = [], 0
        kept.append(segment)
        used += cost
    if kept:
        rest = _text(b"".join(kept))
        # A closing brace alone says nothing.
        if packed and not any(one.isalnum() for one in rest):
            packed[-1] = f"{packed[-1]}\n{rest}"
        else:
            packed.append(rest)
    return [one for one in packed if one.strip()]


def _signature(source: bytes, node: Node, body: Node) -> str:
    python = body.type == "block"
    head = _text(source[node.start_byte : body.start_byte]).rstrip()
    if not python:
        head = f"{head} {{"
    if len(head) > MAX_SIGNATURE:
        head = f"{head[:MAX_SIGNATURE].rsplit(None, 1)[0]} …"
    return f"{head}  # … continued" if python else f"{head}  // … continued"


def _text(source: bytes) -> str:
    return source.decode(errors="replace").strip("\n").rstrip()
