"""Figures of devices in the tables of documents: proposals for facts of a target, never facts yet."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import yaml

from ingest.figures.units import Quantity, read_quantity, unit_of, without_unit
from kb.records.schema import TargetRecord
from kb.records.types import Passage

_RULE = re.compile(r"^\|?[\s:|-]+\|?$")
_CELL = re.compile(r"(?<!\\)\|")
_CAPABILITY = re.compile(r"(?:sm_?)?(\d{1,2})\.?(\d)(?:\.x)?$")
# A name with one of these is another device, where the target's own names have it not.
_VARIANTS = ("pcie", "nvl", "ultra", "super", "ti", "laptop", "mobile", "max-q", "cnx", "gre", "xt")
_SPARSE = re.compile(r"spars", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A figure of a target as a document has it.

    Attributes:
        target: name of its record.
        field: where it belongs in the record, with dots.
        value: in SI units.
        told: label and cell, as they stand in the table.
        note: what makes it doubtful.
    """

    target: str
    field: str
    value: float
    told: str
    passage: str
    document: str
    section: str
    pages: tuple[int, int] | None = None
    note: str = ""

    @property
    def identity(self) -> str:
        """The same figure of the same document is one proposal, wherever it stands in it."""
        parts = (self.target, self.field, repr(self.value), self.document)
        return blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()

    def source(self) -> str:
        """Return where it stands, in one line."""
        page = "" if self.pages is None else f", page {self.pages[0]}"
        return f"{self.document}, {self.section.split(' > ')[-1]}{page}: {self.told}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of Markdown.

    Attributes:
        rows: without the header; each as long as the header.
    """

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def turned(self) -> Table:
        """Return it with rows for columns."""
        columns = list(zip(self.header, *self.rows, strict=True))
        return Table(header=columns[0], rows=tuple(columns[1:]))


class Devices:
    """Knows the targets by the names that documents use.

    Args:
        targets: records whose figures are looked for.
    """

    def __init__(self, targets: Sequence[TargetRecord]) -> None:
        self._names = sorted(
            ((name, target) for target in targets for name in _names(target)),
            key=lambda pair: -len(pair[0]),
        )
        self._targets = targets
        listed = repr([(name, one.name, one.architecture) for name, one in self._names])
        self.digest = blake2b(listed.encode(), digest_size=16).hexdigest()

    def named(self, text: str) -> list[str]:
        """Return the targets that `text` names: one, or none where it names none or several."""
        plain = f" {_plain(text)} "
        found: set[str] = set()
        for name, target in self._names:
            if f" {name} " in plain and not _other(plain, target):
                found.add(target.name)
                plain = plain.replace(f" {name} ", " ")
        return sorted(found) if len(found) == 1 else []

    def of_capability(self, text: str) -> list[str]:
        """Return the targets of a compute capability, as ``9.0`` or ``9.x``."""
        found = _CAPABILITY.match(text.strip().lower().replace("x", "0"))
        if found is None:
            return []
        architecture = f"sm_{int(found[1])}{found[2]}"
        return sorted(one.name for one in self._targets if one.architecture == architecture)


def proposals(passage: Passage, devices: Devices) -> Iterator[Proposal]:
    """Yield the figures in the tables of a passage."""
    for table in tables(passage.text):
        context = f"{passage.section} {table.header[0]}"
        for way in (table, table.turned()):
            found = list(_columns(way, context, devices, passage))
            if found:
                yield from found
                break
        else:
            yield from _single(table, devices, passage)


def tables(text: str) -> Iterator[Table]:
    """Yield the tables of a Markdown text."""
    lines = text.split("\n")
    number = 0
    while number + 1 < len(lines):
        if "|" in lines[number] and _RULE.match(lines[number + 1]) and "-" in lines[number + 1]:
            header = _cells(lines[number])
            number += 2
            rows = []
            while number < len(lines) and "|" in lines[number]:
                cells = _cells(lines[number])
                rows.append((cells + ("",) * len(header))[: len(header)])
                number += 1
            if rows and len(header) > 1:
                yield Table(header=header, rows=tuple(rows))
        else:
            number += 1


def _columns(table: Table, context: str, devices: Devices, passage: Passage) -> Iterator[Proposal]:
    """Read a table with a device a column."""
    by_capability = "capability" in context.lower()
    of = [devices.named(cell) for cell in table.header]
    if by_capability and not any(of):
        of = [devices.of_capability(cell) for cell in table.header]
    for row in table.rows:
        for names, cell in zip(of[1:], row[1:], strict=True):
            for name in names:
                yield from _proposal(row[0], cell, name, passage)


def _single(table: Table, devices: Devices, passage: Passage) -> Iterator[Proposal]:
    """Read a table of labels and values about the one device that a heading names."""
    for heading in reversed(passage.section.split(" > ")):
        names = devices.named(heading)
        if names:
            for row in table.rows:
                yield from _proposal(row[0], row[1], names[0], passage)
            return


def _proposal(label: str, cell: str, target: str, passage: Passage) -> Iterator[Proposal]:
    if _SPARSE.search(label) or _SPARSE.search(cell):
        return  # a peak with sparsity is not the peak that the record means
    plain = without_unit(label)
    for figure in _figures():
        if not figure.matches(plain):
            continue
        quantity: Quantity | None = read_quantity(
            cell, figure.dimension, unit_of(label), binary=figure.binary
        )
        if quantity is not None:
            doubt = quantity.marked or "*" in label
            yield Proposal(
                target=target,
                field=figure.field,
                value=quantity.value,
                told=f"{' '.join(label.split())} = {' '.join(cell.split())}",
                passage=passage.id,
                document=passage.document,
                section=passage.section,
                pages=passage.pages,
                note="a footnote belongs to it, often: with sparsity" if doubt else "",
            )
        return


@dataclass(frozen=True, slots=True, kw_only=True)
class _Figure:
    field: str
    dimension: str
    binary: bool
    label: re.Pattern[str]
    without: re.Pattern[str] | None

    def matches(self, label: str) -> bool:
        if self.without is not None and self.without.search(label):
            return False
        return self.label.fullmatch(label) is not None


@cache
def _figures() -> tuple[_Figure, ...]:
    path = Path(__file__).with_name("figures.yaml")
    listed: list[dict[str, Any]] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return tuple(
        _Figure(
            field=one["field"],
            dimension=one["dimension"],
            binary=one.get("binary", False),
            label=re.compile(one["label"], re.IGNORECASE),
            without=re.compile(one["without"], re.IGNORECASE) if "without" in one else None,
        )
        for one in listed
    )


def _names(target: TargetRecord) -> set[str]:
    if target.device == "cpu":  # names of families, which are words of the language too
        return set()
    names = {_plain(name) for name in (target.name, *target.aliases)}
    if target.match.gpu_name is not None:
        names.add(_plain(target.match.gpu_name))
    return {name for name in names if any(letter.isdigit() for letter in name)}


def _other(text: str, target: TargetRecord) -> bool:
    own = " ".join(_names(target))
    words = set(text.split())
    return any(_plain(mark) in words and _plain(mark) not in own.split() for mark in _VARIANTS)


def _plain(text: str) -> str:
    """Return a name as words: ``RTX-4090`` and ``rtx4090`` are one."""
    words = re.sub(r"[^a-z0-9.+]+", " ", text.lower())
    return re.sub(r"\b(rtx|gtx|rx|max|arc|tpu|mi|gfx) (?=[a-z]?\d)", r"\1", words).strip()


def _cells(line: str) -> tuple[str, ...]:
    inner = line.strip().removeprefix("|").removesuffix("|")
    return tuple(cell.replace("\\|", "|").strip() for cell in _CELL.split(inner))
