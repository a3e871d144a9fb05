"""Markdown: records with front matter, and plain documents."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

import yaml

from ingest.readers import Block, ParsedFile, Section
from ingest.readers.markup import cut, first_heading
from kb.records.front_matter import split_front_matter, without_key
from kb.records.schema import Document, TargetRecord, asked_groups, parse_record
from kb.records.types import Scope


class Markdown:
    """Splits along headings; code and tables stay whole blocks."""

    def read(self, text: str, path: str) -> ParsedFile:
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
        title = str(values.get("title") or first_heading(body) or stem)
        return ParsedFile(kind="document", title=title, body=body, sections=cut(body, title))

    def _record(self, document: Document, front: str) -> ParsedFile:
        record = document.record
        # A template is rendered whole by an author; a piece of one answers no question.
        sections = cut(document.body, record.title, without="jinja")
        scope = record.scope.value()
        if isinstance(record, TargetRecord):
            # What a device can do stands in its front matter, and questions ask for it.
            told = without_key(front, "asked").strip()
            figures = Block(text=f"```yaml\n{told}\n```", kind="fence")
            sections = (Section(trail=(record.title, "Figures"), blocks=(figures,)), *sections)
            if scope == Scope():
                scope = Scope(vendor=(record.vendor,), architecture=(record.architecture,))
        return ParsedFile(
            kind=record.kind,
            title=record.title,
            body=document.body,
            sections=sections,
            record=record.model_dump(mode="json", exclude_defaults=True) | {"kind": record.kind},
            scope=scope,
            symptoms=tuple(getattr(record, "symptoms", ())),
            asked=asked_groups(record.asked),
        )


def _values(front: str) -> dict[str, Any] | None:
    """Return the front matter's values: None where it is not YAML, none where it is no mapping."""
    try:
        loaded = yaml.safe_load(front)
    except (yaml.YAMLError, ValueError, RecursionError):  # the latter two: no such date, too deep
        return None
    return loaded if isinstance(loaded, dict) else {}
