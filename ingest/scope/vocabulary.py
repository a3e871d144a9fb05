"""The words by which a document tells where it applies: `vocabulary.yaml` and the target records."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from kb.config import shipped_docs
from kb.records.library import load_library
from kb.records.schema import TargetRecord

FIELDS = ("vendor", "architecture", "language", "operator")
# Shorter names of devices (T4, L4, M1) are too often something else in running text.
_SHORTEST = 4
_MAKER = {"sm": "nvidia", "gfx": "amd", "cuda": "nvidia", "cute": "nvidia", "hip": "amd"}


@dataclass(frozen=True, slots=True)
class Said:
    """A value of a field, and the words that say it as they stand in the text."""

    value: str
    words: str


class Vocabulary:
    """Finds what a text says of one field.

    Args:
        terms: term -> the values that it says; a term may say several.
    """

    def __init__(self, terms: Mapping[str, Sequence[str]]) -> None:
        self._values = {_plain(term): tuple(values) for term, values in terms.items()}
        longest = sorted(terms, key=lambda term: (-len(term), term))
        body = "|".join(_pattern(term) for term in longest)
        # An underscore parts words here: identifiers say what a function does.
        self._pattern = re.compile(rf"(?<![A-Za-z0-9])(?:{body})(?![A-Za-z0-9])", re.IGNORECASE)

    def said(self, text: str) -> list[Said]:
        """Return what `text` says, in its order, each value once."""
        first: dict[str, str] = {}
        for match in self._pattern.finditer(text):
            for value in self._values[_plain(match[0])]:
                first.setdefault(value, match[0])
        return [Said(value, words) for value, words in first.items()]

    def count(self, text: str) -> Counter[str]:
        """Count how often `text` says each value."""
        counts: Counter[str] = Counter()
        for match in self._pattern.finditer(text):
            counts.update(self._values[_plain(match[0])])
        return counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """All that is known of how documents speak.

    Attributes:
        fields: field -> its vocabulary.
        suffixes: suffix of a file -> field -> values.
        sources: language -> what stands in a source of it.
        known: field -> every value that it may have.
    """

    fields: Mapping[str, Vocabulary]
    suffixes: Mapping[str, Mapping[str, tuple[str, ...]]]
    sources: Mapping[str, tuple[str, ...]]
    known: Mapping[str, frozenset[str]]


@cache
def words() -> Words:
    """Return the vocabulary; it is read once."""
    path = Path(__file__).with_name("vocabulary.yaml")
    listed = yaml.safe_load(path.read_text(encoding="utf-8"))
    terms: dict[str, dict[str, list[str]]] = {field: {} for field in FIELDS}
    known = {field: set(listed[field]) for field in FIELDS}
    for field in FIELDS:
        for value, names in listed[field].items():
            for name in names:
                terms[field].setdefault(name, []).append(value)
    for target in _targets():
        known["vendor"].add(target.vendor)
        known["architecture"].add(target.architecture)
        known["language"].update(target.languages)
        for name in _names(target):
            _say(terms["vendor"], name, target.vendor)
            _say(terms["architecture"], name, target.architecture)
    return Words(
        fields={field: Vocabulary(terms[field]) for field in FIELDS},
        suffixes=listed["suffix"],
        sources={language: tuple(marks) for language, marks in listed["source"].items()},
        known={field: frozenset(values) for field, values in known.items()},
    )


def maker(value: str) -> str | None:
    """Return the vendor that an architecture or a language belongs to alone."""
    return _MAKER.get(re.split(r"[_\d]", value)[0])


def _targets() -> list[TargetRecord]:
    documents = load_library(shipped_docs() / "targets")
    return [one.record for one in documents if isinstance(one.record, TargetRecord)]


def _names(target: TargetRecord) -> list[str]:
    """Return the names of a device that say nothing else; processors have names of families."""
    if target.device == "cpu":
        return []
    names = {target.name, *target.aliases}
    return sorted(
        name for name in names if len(name) >= _SHORTEST and any(c.isdigit() for c in name)
    )


def _say(terms: dict[str, list[str]], name: str, value: str) -> None:
    values = terms.setdefault(name, [])
    if value not in values:
        values.append(value)


def _pattern(term: str) -> str:
    return r"[-_ ]?".join(re.escape(part) for part in re.split(r"[-_ ]", term))


def _plain(term: str) -> str:
    return re.sub(r"[-_ ]", "", term).lower()
