"""Markdown: records with front matter, and plain documents."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

import yaml
from markdown_it import MarkdownIt
from markdown_it.token import Token

from ingest.readers import Block, Reading, Section
from kb.records import Document, TargetRecord, parse_record, split_front_matter
from kb.types import Scope

_KINDS = {"fence": "fence", "code_block": "fence", "table_open": "table"}


class Markdown:
    """Splits along headings; code and tables stay whole blocks."""

    def read(self, text: str, path: str) -> Reading:
        """Read a record where the front matter names a kind, else a plain document.

        Raises:
            RecordError: the front matter breaks the schema.
        """
        front, body = split_front_matter(text)
        values = {} if front is None else _values(front)
        if values is None or "kind" in values:
            return self._record(parse_record(text, path), front or "")
        if not values:  # two rules around a paragraph look like front matter
            body = text
        stem = PurePosixPath(path).stem
        title = str(values.get("title") or _first_heading(body) or stem)
        return Reading(kind="document", title=title, body=body, sections=cut(body, title))

    def _record(self, document: Document, front: str) -> Reading:
        record = document.record
        # A template is rendered whole by an author; a piece of one answers no question.
        sections = cut(document.body, record.title, without="jinja")
        scope = record.scope.value()
        if isinstance(record, TargetRecord):
            # What a device can do stands in its front matter, and questions ask for it.
            figures = Block(text=f"```yaml\n{front.strip()}\n```", kind="fence")
            sections = (Section(trail=(record.title, "Figures"), blocks=(figures,)), *sections)
            if scope == Scope():
                scope = Scope(vendor=(record.vendor,), architecture=(record.architecture,))
        return Reading(
            kind=record.kind,
            title=record.title,
            body=document.body,
            sections=sections,
            record=record.model_dump(mode="json", exclude_defaults=True) | {"kind": record.kind},
            scope=scope,
            symptoms=tuple(getattr(record, "symptoms", ())),
        )


def cut(body: str, title: str, without: str | None = None) -> tuple[Section, ...]:
    """Cut Markdown along its headings, each section under its breadcrumb from `title` down.

    Args:
        without: language of the fences to leave out.
    """
    lines = body.split("\n")
    sections: list[Section] = []
    trail: list[tuple[int, str]] = []
    blocks: list[Block] = []

    def close() -> None:
        if blocks:
            names = [name for _, name in trail]
            # A document's first heading often repeats its title.
            names = names if names[:1] == [title] else [title, *names]
            sections.append(Section(trail=tuple(names), blocks=tuple(blocks)))
            blocks.clear()

    tokens = MarkdownIt("commonmark").enable("table").parse(body)
    for number, token in enumerate(tokens):
        if token.level or token.map is None:
            continue
        if token.type == "heading_open":
            close()
            level = int(token.tag[1:])
            trail = [step for step in trail if step[0] < level]
            trail.append((level, _plain(tokens[number + 1])))
        elif without is None or token.info.split()[:1] != [without]:
            text = "\n".join(lines[token.map[0] : token.map[1]]).strip("\n").rstrip()
            if text:
                blocks.append(_block(token, text))
    close()
    return tuple(sections)


def _block(token: Token, text: str) -> Block:
    kind = _KINDS.get(token.type)
    if kind == "fence":
        return Block(text=text, kind="fence")
    return Block(text=text, kind="table" if kind == "table" else "prose")


def _plain(inline: Token) -> str:
    children: Sequence[Token] = inline.children or ()
    text = "".join(child.content for child in children if child.type in {"text", "code_inline"})
    return " ".join(text.split())


def _first_heading(body: str) -> str | None:
    tokens = MarkdownIt("commonmark").parse(body)
    for number, token in enumerate(tokens):
        if token.type == "heading_open" and token.tag == "h1":
            return _plain(tokens[number + 1])
    return None


def _values(front: str) -> dict[str, Any] | None:
    """Return the front matter's values: None where it is not YAML, none where it is no mapping."""
    try:
        loaded = yaml.safe_load(front)
    except yaml.YAMLError:
        return None
    return loaded if isinstance(loaded, dict) else {}
