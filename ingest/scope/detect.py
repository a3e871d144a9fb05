"""Where a document and its passages apply, told from its front matter, path, title, text and headings.

The rules are few and each leaves its reason, because a wrong scope hides a passage: a value is
taken from the running text only where hardly anything else is spoken of.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import PurePosixPath

from ingest.readers import ParsedFile
from ingest.scope.vocabulary import FIELDS, Said, maker, words
from kb.records.types import Scope
from kb.store.tables import ScopeEvidence

FROM_TEXT = ("vendor", "architecture")  # fields for which the running text is heard
MENTIONS = {"vendor": 5, "architecture": 10}  # the least of one value in a text
DENSE = 100  # words to one mention, at most: a word in passing is no subject
SHARE = {"vendor": 0.8, "architecture": 0.9}  # of all mentions of the field
HEARD = 1_000_000  # characters of a text: a manual has told by then whom it is for
# A heading about another device or operator leaves the document's own; one about another maker or
# language compares.
_REPLACED = frozenset({"architecture", "operator"})
_OF_CODE = ("architecture", "operator")  # what the name of a function says of it
ARROW = " > "


def find_scope(reading: ParsedFile, shown: str) -> ScopeEvidence:
    """Return where a document applies, with the reasons.

    Args:
        shown: its name with its path: folders are often named for makers and languages.
    """
    if reading.record is not None:
        return ScopeEvidence(scope=reading.scope, reasons=("as its front matter says",))
    if reading.scope != Scope():
        return ScopeEvidence(scope=reading.scope, reasons=("as its reader found",))
    values: dict[str, list[str]] = {field: [] for field in FIELDS}
    reasons: list[str] = []

    def take(field: str, said: Iterable[Said], where: str) -> None:
        for one in said:
            if one.value not in values[field]:
                values[field].append(one.value)
                reasons.append(f"{field} {one.value}: {where.format(one.words)}")

    path = PurePosixPath(shown)
    for field, listed in words().suffixes.get(path.suffix.lower(), {}).items():
        take(field, (Said(value, path.suffix) for value in listed), "the suffix {}")
    for field in FIELDS:
        take(field, _said(field, shown), "its path has {}")
        take(field, _said(field, reading.title), "its title has {}")
    if is_source(shown):
        if not values["language"]:
            take("language", _imported(reading.body), "its source has {}")
        if not values["language"]:
            said = [Said("cpp", path.suffix)] if path.suffix.lower() in _CPP else []
            take("language", said, "the suffix {}")
    else:
        for field in FROM_TEXT:
            if not values[field]:
                take(field, _prevailing(field, reading.body), "{}")
    for field in ("architecture", "language"):
        makers = {maker(value) for value in values[field]}
        if not values["vendor"] and len(makers) == 1 and None not in makers:
            take("vendor", (Said(str(one), values[field][0]) for one in makers), "{} is theirs")
    return ScopeEvidence(scope=_scope(values), reasons=tuple(reasons))


def refine(
    reading: ParsedFile, document: ScopeEvidence, section: str, text: str = ""
) -> ScopeEvidence | None:
    """Return where a passage applies, None where that is where its document does.

    A record says where it applies, and its headings do not change that. The deepest heading that
    says something of a field counts; of a passage that joins several small sections, each must.

    Args:
        section: the passage's breadcrumb; its first step is the title.
        text: of the passage: in a joined one, the headings stand in bold.
    """
    if reading.record is not None or reading.scope != Scope():
        return None
    values = {field: list(getattr(document.scope, field)) for field in FIELDS}
    reasons: list[str] = []
    steps = section.split(ARROW)[1:]
    headings: list[tuple[str, ...]] = [(step,) for step in steps[:-1]]
    headings += [_parts(steps[-1], text)] if steps else []
    # A function called is_hip asks which maker it is; a document's heading tells.
    for field in _OF_CODE if is_source(section.split(ARROW, maxsplit=1)[0]) else FIELDS:
        said = next(filter(None, (_all_say(field, one) for one in reversed(headings))), ())
        new = [one for one in said if one.value not in values[field]]
        if said and field in _REPLACED:
            values[field] = [one.value for one in said]
        else:
            values[field] += [one.value for one in new]
        reasons += [f"{field} {one.value}: a heading has {one.words}" for one in new]
    scope = _scope(values)
    if scope == replace(document.scope, dtype=()):
        return None
    return ScopeEvidence(scope=replace(scope, dtype=document.scope.dtype), reasons=tuple(reasons))


_BOLD = re.compile(r"^\*\*(.+?)\*\*(?=:|$)", re.MULTILINE)


def is_source(name: str) -> bool:
    """Say whether a file of this name is a program."""
    return PurePosixPath(name).suffix.lower() in _SOURCES | words().suffixes.keys()


def _parts(heading: str, text: str) -> tuple[str, ...]:
    """Return the headings that the last step of a breadcrumb stands for."""
    names = tuple(_BOLD.findall(text))
    return names if len(names) > 1 and heading == ", ".join(names) else (heading,)


def _all_say(field: str, headings: Sequence[str]) -> tuple[Said, ...]:
    """Return what headings say of a field where each of them says something."""
    said = [_said(field, heading) for heading in headings]
    if not all(said):
        return ()
    return tuple({one.value: one for several in said for one in several}.values())


_CPP = frozenset({".c", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".inl"})
_SOURCES = _CPP | {".py", ".pyi"}


@lru_cache(maxsize=4096)
def _said(field: str, text: str) -> tuple[Said, ...]:
    return tuple(words().fields[field].said(text))


def _imported(source: str) -> list[Said]:
    return [
        Said(language, mark)
        for language, marks in words().sources.items()
        for mark in marks
        if mark in source
    ][:1]


def _prevailing(field: str, text: str) -> list[Said]:
    heard = text[:HEARD]
    counts = words().fields[field].count(heard)
    total = counts.total()
    if not total:
        return []
    value, most = counts.most_common(1)[0]
    if most < max(MENTIONS[field], SHARE[field] * total, len(heard.split()) / DENSE):
        return []
    return [Said(value, f"{most} of {total} mentions of a {field} in its text")]


def _scope(values: dict[str, list[str]]) -> Scope:
    return Scope(**{field: tuple(found) for field, found in values.items()})
