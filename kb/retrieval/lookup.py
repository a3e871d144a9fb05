"""What may be read by name: a record whole, a page of the index, what an idea gained."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any, Literal

from kb.config import shipped_programs
from kb.records.front_matter import split_template
from kb.records.pages import Module, describe, make_modules
from kb.records.schema import Document, Evidence, IdeaRecord, LessonRecord, TargetRecord
from kb.records.types import Kind, Passage, Scope, fates
from kb.retrieval.effect_estimate import Where
from kb.retrieval.effect_store import Effects, by_place, row
from kb.retrieval.lesson_confidence import standing
from kb.store.documents import Store
from kb.store.views import Shelved

# Of two records of one name the first kind is meant.
_KINDS: tuple[Kind, ...] = (
    "idea",
    "guide",
    "kernel",
    "lesson",
    "language",
    "constraint",
    "target",
)
BEGINNING = 8  # passages of a plain document that are its beginning
NEAREST = 3  # names that are told where one is not known
_EVIDENCE = 6  # measurements of a record that are told, the latest ones
_ELSEWHERE = "Written for other targets or languages"
_SENTENCE = re.compile(r"[.!?](?=\s+[A-Z`*\d]|$)")


def _program(name: str) -> LookupResult | None:
    """Return a program that a kernel record names, None where there is none."""
    path = PurePosixPath(name.strip())
    folder = path.parent.name
    if path.name != "program.py" or not folder.isidentifier():
        return None
    file = shipped_programs() / folder / path.name
    if not file.is_file():
        return None
    shown = f"examples/kernels/{folder}/{path.name}"
    text = file.read_text(encoding="utf-8")
    return LookupResult(kind="read", name=shown, title="the whole program", text=text)


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupResult:
    """What stands under a name.

    Attributes:
        name: by which it can be asked for again; the one asked for where nothing was found.
        text: of a page or of a history, a line each; "" for what has passages.
        passages: a record whole, under the identity of its first passage; of a plain document the
            first passages, as they are quoted.
        more: passages of the document that are not among them.
        rows: figures of a history: one object for each place where it was measured.
        nearest: known names that are like one which is not known.
    """

    kind: Literal["read", "module", "history"]
    name: str
    title: str = ""
    text: str = ""
    passages: tuple[Passage, ...] = ()
    more: int = 0
    rows: tuple[Mapping[str, Any], ...] = ()
    nearest: tuple[str, ...] = ()

    @property
    def found(self) -> bool:
        """Say whether there is anything under that name."""
        return bool(self.text or self.passages)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "kind": self.kind,
            "name": self.name,
            "title": self.title,
            "text": self.text or "\n\n".join(one.text for one in self.passages),
            "passages": [
                {
                    "id": one.id,
                    "document": one.document,
                    "section": one.section,
                    "flags": list(one.flags),
                }
                for one in self.passages
            ],
            "more": self.more,
            "rows": [dict(one) for one in self.rows],
        }


class RecordReader:
    """Reads records, pages of the index and histories over one knowledge base.

    Pages are made from the records that are there, lessons and the user's own among them.

    Args:
        effects: what the use of passages gained.
        hidden: documents that are not read and not named.
    """

    def __init__(
        self, store: Store, effects: Effects, hidden: frozenset[str] = frozenset()
    ) -> None:
        self._store = store
        self._effects = effects
        self._hidden = hidden

    def read(self, name: str) -> LookupResult:
        """Return a record whole, without its recipe's template, the beginning of a plain document, or a record's program.

        Args:
            name: its file's stem, or its path as quotations have it, or the end of that; of a program its path as a
                record has it.
        """
        program = _program(name)
        if program is not None:
            return program
        document = self._find(name)
        if document is not None:
            return self._whole(document)
        plain = self._plain(name)
        if plain is not None:
            passages = tuple(passage for passage, _ in plain.passages)
            return LookupResult(
                kind="read",
                name=plain.shown,
                title=plain.title,
                passages=passages[:BEGINNING],
                more=max(0, len(passages) - BEGINNING),
            )
        return LookupResult(kind="read", name=name, nearest=nearest(name, self._names))

    def module(
        self, name: str, scope: Scope | None = None, first: Sequence[str] = ()
    ) -> LookupResult:
        """Return a page of the index, what applies first.

        Args:
            name: as the index has it, with or without its folder and ending.
            scope: where knowledge must apply; None for anywhere.
            first: headings of sections that come before the others: the symptoms of a diagnosis.
        """
        wanted = PurePosixPath(name.strip().lower().replace(" ", "-")).name.removesuffix(".md")
        ends = [one for one in self._modules if one.endswith(f"-{wanted}")]
        page = self._modules.get(wanted) or (self._modules[ends[0]] if len(ends) == 1 else None)
        if page is None:
            return LookupResult(kind="module", name=name, nearest=nearest(wanted, self._modules))
        lines = tuple(_page(page, scope or Scope(), first))
        title = f"{page.heading}: {page.title}"
        return LookupResult(kind="module", name=page.name, title=title, text="\n".join(lines))

    def history(self, name: str, where: Where | None = None) -> LookupResult:
        """Return what an idea, or another record, gained: in runs, by its evidence, by lessons.

        Args:
            where: the place that a gain is expected for; None for anywhere.
        """
        document = self._find(name)
        if document is None:
            return LookupResult(kind="history", name=name, nearest=nearest(name, self._names))
        rows = by_place(self._effects, document.path)
        lines = [
            f"{document.name}: {document.record.title}",
            *self._gained(document.path, where or Where(), rows),
            *_told("Its evidence", map(_evidence, _measurements(document))),
            *_told("Lessons about it", self._lessons(document)),
        ]
        return LookupResult(
            kind="history",
            name=document.name,
            title=document.record.title,
            text="\n".join(lines),
            rows=tuple(rows),
        )

    @cached_property
    def _documents(self) -> tuple[Document, ...]:
        every = (one for kind in _KINDS for one in self._store.documents(kind))
        return tuple(one for one in every if one.path not in self._hidden)

    @cached_property
    def _by_name(self) -> dict[str, Document]:
        found: dict[str, Document] = {}
        for one in self._documents:
            known = found.get(one.name)
            # Of one kind the latest root's; a target is also called by its other names.
            if known is None or known.record.kind == one.record.kind:
                found[one.name] = one
            if isinstance(one.record, TargetRecord):
                for name in (one.record.name, *one.record.aliases):
                    found.setdefault(name, one)
        return found

    @cached_property
    def _modules(self) -> dict[str, Module]:
        return {one.name: one for one in make_modules(self._documents)}

    @property
    def _names(self) -> list[str]:
        every = self._store.manifest().values()
        shown = {path for _, path in every} - self._hidden - {one.path for one in self._documents}
        return [*self._by_name, *sorted(shown)]

    def _find(self, name: str) -> Document | None:
        wanted = name.strip()
        found = self._by_name.get(wanted) or self._by_name.get(wanted.lower())
        if found is not None:
            return found
        end = "/" + wanted.removeprefix("../").lstrip("/")
        meant = [one for one in self._documents if f"/{one.path}".endswith(end)]
        stem = PurePosixPath(wanted).name.removesuffix(".md")
        by_path = [one for one in meant if "/" in wanted or wanted.endswith(".md")]
        return by_path[-1] if by_path else self._by_name.get(stem)

    def _plain(self, name: str) -> Shelved | None:
        """Return the one document that is no record and is called so."""
        records = {one.path for one in self._documents}
        found = [self._store.shelved(key) for key in self._store.keys(name.strip())[:NEAREST]]
        plain = [
            one
            for one in found
            if one and one.shown not in self._hidden and one.shown not in records
        ]
        return plain[0] if len(plain) == 1 else None

    def _whole(self, document: Document) -> LookupResult:
        record = document.record
        keys = self._store.keys(document.path)
        shelved = self._store.shelved(keys[0]) if keys else None
        quoted = [passage for passage, _ in shelved.passages] if shelved is not None else []
        category = f", {record.category}" if isinstance(record, IdeaRecord) else ""
        lines = [
            f"{record.kind}{category}: {describe(document)}",
            *_told("Measured", map(_evidence, _measurements(document))),
            "",
            split_template(document.body)[0],
        ]
        text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
        whole = Passage(
            id=quoted[0].id if quoted else document.path,
            document=document.path,
            section=record.title,
            kind=record.kind,
            text=text,
            tokens=sum(one.tokens for one in quoted),
            scope=record.scope.value(),
            flags=tuple(dict.fromkeys(flag for one in quoted for flag in one.flags)),
        )
        return LookupResult(kind="read", name=document.name, title=record.title, passages=(whole,))

    def _gained(
        self, subject: str, where: Where, rows: Sequence[Mapping[str, Any]]
    ) -> Iterator[str]:
        if not rows:
            yield "No run in this record measured it yet."
            return
        here = row("here", self._effects.of([subject], where)[subject])
        place = "; ".join((", ".join(sorted(where.families)), where.architecture, where.bottleneck))
        asked = f"Here ({place})" if where != Where() else "Anywhere"
        yield f"{asked}: expect {_interval(here)} the speed; returned {here['retrieved']} times."
        yield "In runs, by operator families, architecture and bottleneck:"
        for one in rows:
            yield f"- {one['name']}: {fates(one)}; expect {_interval(one)} the speed"

    def _lessons(self, document: Document) -> Iterator[str]:
        today = datetime.fromtimestamp(self._effects.moment, UTC).date()
        names = (document.name, document.record.title)
        for one in self._documents:
            record = one.record
            if not isinstance(record, LessonRecord) or one.path == document.path:
                continue
            subject = record.claim.subject if record.claim is not None else ""
            if record.idea in names or subject in names:
                known = standing(record, today)
                counts = f"{known.confirmed} for it, {known.contradicted} against"
                yield f"{one.name}: {record.title} ({counts})"


def nearest(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """Return the names that are most like one which is not known."""
    by_lower = {one.lower(): one for one in known}
    found = difflib.get_close_matches(name.strip().lower(), by_lower, n=NEAREST, cutoff=0.0)
    return tuple(by_lower[one] for one in found)


def first_sentence(text: str, characters: int = 200) -> str:
    """Return the first sentence of prose in a Markdown text, without headings, tables and fences."""
    prose = []
    fenced = False
    for line in text.splitlines():
        bare = line.strip()
        if bare.startswith("```"):
            fenced = not fenced
        elif bare and not fenced and bare[0] not in "#|":
            prose.append(bare)
        elif prose:
            break
    joined = " ".join(prose)
    end = _SENTENCE.search(joined)
    sentence = joined[: end.end()] if end is not None else joined
    return sentence if len(sentence) <= characters else f"{sentence[: characters - 1]}…"


def _page(module: Module, scope: Scope, first: Sequence[str]) -> Iterator[str]:
    sections = module.sections or (("", module.members),)
    named = {heading: place for place, heading in enumerate(first)}
    elsewhere: dict[str, None] = {}
    for heading, members in sorted(sections, key=lambda one: named.get(one[0], len(named))):
        inside = [one for one in members if one.record.scope.value().admits(scope)]
        if inside and heading:
            yield f"## {heading}"
        yield from (_entry(one) for one in inside)
        elsewhere.update((_entry(one), None) for one in members if one not in inside)
    if elsewhere:
        yield f"## {_ELSEWHERE}"
        yield from elsewhere


def _entry(document: Document) -> str:
    return f"- {document.name}: {describe(document)}"


def _told(heading: str, lines: Iterable[str]) -> list[str]:
    found = [f"- {line}" for line in lines]
    return [f"{heading}:", *found] if found else []


def _measurements(document: Document) -> Sequence[Evidence]:
    return tuple(getattr(document.record, "evidence", ()))[-_EVIDENCE:]


def _evidence(one: Evidence) -> str:
    gain = f", {one.gain:.2f} times the speed" if one.gain is not None else ""
    known = one.low is not None and one.high is not None
    interval = f" ({one.low:.2f} to {one.high:.2f})" if gain and known else ""
    place = f" ({one.run} node {one.node})" if one.run is not None else ""
    note = f": {' '.join(one.note.split())}" if one.note else ""
    return f"{one.task} on {one.target}: {one.outcome}{gain}{interval}{place}{note}"


def _interval(one: Mapping[str, Any]) -> str:
    return f"{one['gain']:.2f} ({one['low']:.2f} to {one['high']:.2f}) times"
