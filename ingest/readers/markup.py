"""Markdown, cut along its headings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from markdown_it import MarkdownIt
from markdown_it.token import Token

from ingest.readers import Block, Section
from ingest.readers.blocks import BlockOutline, prose

MAX_NESTING = 100  # quotations in quotations: deeper ones are read as text


def cut(body: str, title: str, without: str | None = None) -> tuple[Section, ...]:
    """Cut Markdown along its headings, each section under its breadcrumb from `title` down.

    Args:
        without: language of the fences to leave out.
    """
    lines = body.split("\n")
    outline = BlockOutline(title, bare=True)
    tokens = _parser().parse(body)
    for number, token in enumerate(tokens):
        if token.level or token.map is None:
            continue
        if token.type == "heading_open":
            outline.heading(int(token.tag[1:]), _plain(tokens[number + 1]))
        elif without is not None and token.info.split()[:1] == [without]:
            outline.leave_out()
        else:
            text = "\n".join(lines[token.map[0] : token.map[1]]).strip("\n").rstrip()
            outline.add(*_blocks(token, text, tokens[number:]))
    return outline.sections()


def first_heading(body: str) -> str | None:
    """Return the text of the first heading of the first level."""
    tokens = _parser().parse(body)
    for number, token in enumerate(tokens):
        if token.type == "heading_open" and token.tag == "h1":
            return _plain(tokens[number + 1])
    return None


def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"maxNesting": MAX_NESTING}).enable("table")


def _blocks(token: Token, text: str, following: Sequence[Token]) -> Sequence[Block]:
    if token.type in {"fence", "code_block"}:
        return (Block(text=text, kind="fence"),)
    if token.type == "table_open":
        return (Block(text=text, kind="table"),)
    if token.type == "html_block":
        return _html(text)
    if token.type in {"bullet_list_open", "ordered_list_open"}:
        return _list(token, text, following)
    return (prose(text),)


def _list(token: Token, text: str, following: Sequence[Token]) -> Sequence[Block]:
    """Return a list whose listings and tables are blocks of their own, so that none is cut."""
    first, end = token.map or (0, 0)
    lines = text.split("\n")
    blocks: list[Block] = []
    at = 0
    for inner in following:
        if inner.map is None or inner.type not in {"fence", "table_open"}:
            continue
        if inner.map[0] >= end:
            break
        start, stop = inner.map[0] - first, inner.map[1] - first
        begins = lines[start][: len(lines[start]) - len(lines[start].lstrip(" "))]
        if len(begins) < 2 or start < at:  # beside the mark of its item: left as it stands
            continue
        inside = "\n".join(line.removeprefix(begins) for line in lines[start:stop])
        kind: Literal["fence", "table"] = "fence" if inner.type == "fence" else "table"
        blocks += [prose("\n".join(lines[at:start])), Block(text=inside.rstrip(), kind=kind)]
        at = stop
    return [*blocks, prose("\n".join(lines[at:]))]


def _html(text: str) -> Sequence[Block]:
    """Return what a browser would show of HTML between paragraphs."""
    from ingest.readers.html.markup import blocks_of

    return blocks_of(text)


def _plain(inline: Token) -> str:
    children: Sequence[Token] = inline.children or ()
    text = "".join(child.content for child in children if child.type in {"text", "code_inline"})
    return " ".join(text.split())
