"""Deep search: from the library's index to its modules, into them, and along their references.

A flat search ranks a passage by its own words. A diagnosis names several things at once, and what
answers one of them may share no word with the rest; so each of them (the question, every symptom)
first chooses modules by the index, as a reader would, and then searches inside them. Every passage
says how it was come to.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import numpy as np

from kb.indexes.words import split_words
from kb.retrieve_fuse import RRF_K, fuse, rank

if TYPE_CHECKING:
    from kb.indexes import Mask, Vector
    from kb.retrieve_view import View
    from kb.types import Passage, Query

MODULES = 3  # that one facet chooses
INSIDE = 3  # passages that one facet takes of one module
FACETS = 4  # the question, and the worst symptoms
REFERENCES = 4  # that are followed in one hop
VOTES = 5  # passages that speak for a module: large ones have no more say
LARGE = 60  # records from which on a page is taken as its sections
_LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+\.md)\)(.*)")
_NAME = re.compile(r"`([a-z0-9][a-z0-9.-]{3,})`|\]\(([^)\s]+)\.md\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """A page of the index, or a folder of documents that have no index.

    Attributes:
        words: of its title and of its records' lines, with how often.
        documents: its members, as quotations call them.
    """

    title: str
    words: Mapping[str, int]
    documents: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A row that deep search came to, and how."""

    row: int
    trail: tuple[str, ...]


def read_contents(folder: Path, label: str) -> tuple[Module, ...]:
    """Return the modules of the index in `folder`; none where it has no index.

    Args:
        label: of its documents: ``kb`` where quotations call them ``kb:ideas/x.md``.
    """
    index = folder / "index.md"
    if not index.is_file():
        return ()
    found: list[Module] = []
    for heading, target, line in _lines(index.read_text(encoding="utf-8")):
        page = (folder / target).resolve()
        if not page.is_file() or not page.is_relative_to(folder.resolve()):
            continue
        text = page.read_text(encoding="utf-8")
        if text.startswith("---"):  # a record: the index lists it without a page between
            continue
        records = [
            (section, _document(folder, page.parent / link, label), about)
            for section, link, about in _lines(text)
            if link != "../index.md"
        ]
        found += _modules(f"{heading}: {_title(line)}", line, records)
    return tuple(found)


class Deep:
    """Deep search over one index.

    Args:
        contents: modules of the library's index; what is in none of them is found by its folder.
    """

    def __init__(self, view: View, contents: Sequence[Module]) -> None:
        self._view = view
        self._contents = contents

    def search(
        self,
        query: Query,
        facets: Sequence[tuple[str, str, Vector | None]],
        among: Mask,
        read: _Read,
    ) -> list[Step]:
        """Return the rows that deep search comes to within `query.hops` hops, best first.

        Args:
            facets: name, text and vector of all that is asked; the question is the first.
            among: rows that may answer.
            read: passages by row.
        """
        turns: dict[tuple[int, int, int], Step] = {}
        for order, (name, text, vector) in enumerate(facets[:FACETS]):
            asked = replace(query, text=text, symptoms=(), hops=0)
            for place, (module, rows) in enumerate(self._chosen(asked, vector, among)):
                first = f"index: {module.title} is choice {place + 1} for {name}"
                for inside, row in enumerate(rows[:INSIDE]):
                    step = Step(row=row, trail=(first, f"module: place {inside + 1} in it"))
                    turns[inside, place, order] = step
        # Breadth first: the best of every facet's first module before the second of any.
        steps = [turns[turn] for turn in sorted(turns)]
        for _ in range(query.hops - 1):
            more = self._referenced(steps, facets[0][2], among, read)
            if not more:
                break
            steps += more
        return steps

    def _chosen(
        self, asked: Query, vector: Vector | None, among: Mask
    ) -> Iterator[tuple[Module, list[int]]]:
        """Yield the modules that one facet chooses, each with its best rows."""
        index = self._view.index
        ranked = [one.row for one in fuse(rank(self._view, asked, vector, among), index.ids)]
        by_document: dict[str, list[int]] = {}
        for place, row in enumerate(ranked):
            by_document.setdefault(self._view.document(row), []).append(place)
        words = set(split_words(asked.text))
        matches = _order({i: self._match(i, words) for i in range(len(self._modules))})
        votes = _order(
            {
                i: _votes(place for name in module.documents for place in by_document.get(name, ()))
                for i, module in enumerate(self._modules)
            }
        )
        totals = {
            i: sum(1 / (RRF_K + places[i]) for places in (matches, votes) if i in places)
            for i in matches.keys() | votes.keys()
        }
        for i in sorted(totals, key=lambda one: (-totals[one], one))[:MODULES]:
            module = self._modules[i]
            mine = [row for row in ranked if self._view.document(row) in module.documents]
            if len(mine) < INSIDE:
                inside = np.logical_and(among, self._members(i))
                mine = [one.row for one in fuse(rank(self._view, asked, vector, inside), index.ids)]
            yield module, mine

    def _referenced(
        self, steps: Sequence[Step], vector: Vector | None, among: Mask, read: _Read
    ) -> list[Step]:
        """Return the best row of each record that what was taken names."""
        known = {self._view.document(step.row) for step in steps}
        passages = read([step.row for step in steps])
        found: list[Step] = []
        for step in steps:
            passage = passages.get(step.row)
            for name in _names(passage.text if passage else ""):
                document = self._by_name.get(name)
                if document is None or document in known or len(found) == REFERENCES:
                    continue
                inside = np.logical_and(among, self._rows_of([document]))
                row = self._best(vector, inside)
                if row is not None:
                    known.add(document)
                    named = f"reference: {self._view.document(step.row)} names it"
                    found.append(Step(row=row, trail=(*step.trail, named)))
        return found

    def _best(self, vector: Vector | None, inside: Mask) -> int | None:
        rows = np.flatnonzero(inside)
        if not len(rows):
            return None
        if vector is None:
            return int(rows[0])
        return self._view.index.dense.rank(vector, inside, 1)[0].row

    def _match(self, module: int, words: set[str]) -> float:
        """Return how well a module's lines of the index match: rare words count more."""
        mine = self._modules[module].words
        length = 1 + math.log(1 + sum(mine.values()))
        return sum(
            self._rarity[word] * (1 + math.log(mine[word])) / length
            for word in words
            if word in mine
        )

    @cached_property
    def _modules(self) -> tuple[Module, ...]:
        listed = {name for module in self._contents for name in module.documents}
        folders: dict[str, set[str]] = {}
        for source in self._view.index.sources:
            if source.shown not in listed:
                parent = str(PurePosixPath(source.shown).parent)
                place = source.shown if parent == "." else parent
                folders.setdefault(place, set()).add(source.shown)
        own = (
            Module(
                title=place,
                words=Counter(split_words(re.sub(r"[/:._-]", " ", place))),
                documents=frozenset(names),
            )
            for place, names in sorted(folders.items())
        )
        return (*self._contents, *own)

    @cached_property
    def _rarity(self) -> Mapping[str, float]:
        having = Counter(word for module in self._modules for word in module.words)
        return {word: math.log(1 + len(self._modules) / n) for word, n in having.items()}

    @cached_property
    def _by_name(self) -> Mapping[str, str]:
        """Records by their stems, as texts name them."""
        return {
            PurePosixPath(source.shown).stem.rpartition(":")[2]: source.shown
            for source in self._view.index.sources
            if source.kind != "document"
        }

    def _members(self, module: int) -> Mask:
        return self._rows_of(self._modules[module].documents)

    def _rows_of(self, documents: Sequence[str] | frozenset[str]) -> Mask:
        wanted = [source.shown in documents for source in self._view.index.sources]
        mask: Mask = np.asarray(wanted, bool)[self._view.source_of]
        return mask


if TYPE_CHECKING:
    from collections.abc import Callable

    _Read = Callable[[Sequence[int]], Mapping[int, Passage]]


def _modules(title: str, line: str, records: Sequence[tuple[str, str, str]]) -> Iterator[Module]:
    """Yield a page as one module, a large one as its sections."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for section, document, about in records:
        groups.setdefault(section if len(records) > LARGE else "", []).append((document, about))
    for section, members in groups.items():
        lines = " ".join(about for _, about in members)
        name = f"{title}, {section}" if section else title
        yield Module(
            title=name,
            words=Counter(split_words(f"{name} {'' if section else line} {lines}")),
            documents=frozenset(document for document, _ in members),
        )


def _lines(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield heading, target and text of each line that links to a page or a record."""
    heading = ""
    for line in text.splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ").strip()
        elif line.startswith("- ") and (found := _LINK.search(line)):
            yield heading, found.group(2), f"{found.group(1)}{found.group(3)}"


def _title(line: str) -> str:
    return re.split(r" \(|:", line)[0].strip()


def _document(folder: Path, path: Path, label: str) -> str:
    resolved = path.resolve()
    base = folder.resolve()
    inside = resolved.relative_to(base) if resolved.is_relative_to(base) else path
    return f"{label}:{inside.as_posix()}"


def _names(text: str) -> Iterator[str]:
    for quoted, linked in _NAME.findall(text):
        yield quoted or PurePosixPath(linked).name


def _order(scores: Mapping[int, float]) -> dict[int, int]:
    """Return the places of what scores at all."""
    told = sorted((i for i in scores if scores[i] > 0), key=lambda i: (-scores[i], i))
    return {i: place for place, i in enumerate(told, start=1)}


def _votes(places: Iterator[int]) -> float:
    return sum(1 / (RRF_K + place) for place in sorted(places)[:VOTES])
