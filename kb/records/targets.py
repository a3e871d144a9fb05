"""The targets of one user: the shipped records, records of their own, and facts that they accepted.

In the home, ``targets/*.md`` are whole records; one of the name of a shipped record stands for it.
``targets/*.yaml`` hold single facts with their sources, which `kb facts accept` writes.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from kb.config import Home, shipped_docs
from kb.errors import ConfigError
from kb.records.library import load_library
from kb.records.schema import Document, TargetRecord, parse_record

FOLDER = "targets"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Fact(_Strict):
    """A figure that the user accepted.

    Attributes:
        field: place in the record, with dots: ``caches.l2.bytes``.
        value: in SI units.
        source: document, section, page and row.
        accepted: day, as ISO 8601 has it.
        instead_of: what the record said, where that was another value.
    """

    field: str
    value: float
    source: str
    accepted: str
    instead_of: float | None = None


class Overlay(_Strict):
    """All accepted facts of one target."""

    target: str
    facts: tuple[Fact, ...] = ()


def load_targets(home: Home) -> list[Document]:
    """Return every target record as this user has it.

    Raises:
        ConfigError: a file of the home cannot be used.
        RecordError: a record breaks the schema.
    """
    return [overlaid(one, load_overlay(home, _record(one).name)) for one in base_targets(home)]


def base_targets(home: Home) -> list[Document]:
    """Return the target records without accepted facts: the shipped ones and the user's own.

    Raises:
        ConfigError: a file of the home cannot be read.
        RecordError: a record breaks the schema.
    """
    own = [parse_record(_read(path), path.as_posix()) for path in _own(home)]
    known = {_record(one).name: one for one in own}
    shipped = load_library(shipped_docs() / "targets")
    return [*(one for one in shipped if _record(one).name not in known), *own]


def overlaid(document: Document, overlay: Overlay | None) -> Document:
    """Return a record with the accepted facts in it.

    Raises:
        ConfigError: a fact fits into no record.
    """
    if overlay is None or not overlay.facts:
        return document
    values = _record(document).model_dump(mode="python")
    sources = list(values["sources"])
    for fact in overlay.facts:
        _put(values, fact.field, fact.value)
        sources.append(f"{fact.field}: {fact.source}")
    values["sources"] = sources
    try:
        record = TargetRecord.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ConfigError(
            f"accepted facts of {overlay.target}: {place}: {first['msg']}: take it out with kb facts "
            "reject, or correct targets/ in KB_HOME"
        ) from error
    return replace(document, record=record)


def look_up(record: TargetRecord, field: str) -> float | None:
    """Return the figure at a place with dots, None where the record has none."""
    found: Any = record.model_dump(mode="python")
    for step in field.split("."):
        if not isinstance(found, Mapping) or found.get(step) is None:
            return None
        found = found[step]
    return float(found) if isinstance(found, int | float) else None


def load_overlay(home: Home, target: str) -> Overlay | None:
    """Return the accepted facts of a target, None where there are none.

    Raises:
        ConfigError: the file cannot be used.
    """
    path = _path(home, target)
    try:
        loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
        return Overlay.model_validate(loaded)
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError, yaml.YAMLError, ValidationError) as error:
        found = " ".join(str(error).split())[:200]
        raise ConfigError(
            f"{path}: expected accepted facts (target, facts), found {found}: mend it or move it away"
        ) from error


def accept(home: Home, target: str, facts: Sequence[Fact]) -> Path:
    """Write facts of a target, each in the place of an older one of its field; return the file."""
    known = load_overlay(home, target) or Overlay(target=target)
    fields = {fact.field for fact in facts}
    kept = [fact for fact in known.facts if fact.field not in fields]
    return _write(home, Overlay(target=target, facts=(*kept, *facts)))


def withdraw(home: Home, target: str, field: str, value: float) -> bool:
    """Take an accepted fact out again; return whether it was there."""
    known = load_overlay(home, target)
    if known is None:
        return False
    kept = tuple(one for one in known.facts if (one.field, one.value) != (field, value))
    if len(kept) == len(known.facts):
        return False
    _write(home, Overlay(target=target, facts=kept))
    return True


def _write(home: Home, overlay: Overlay) -> Path:
    path = _path(home, overlay.target)
    head = (
        "# Written by `kb facts accept`: figures from documents, stronger than the record's own.\n"
    )
    plain = overlay.model_dump(mode="json", exclude_none=True)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Whole or not at all: a killed command leaves the file as it was.
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
            file.write(head + yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=200))
        os.replace(file.name, path)
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be written ({error.strerror}): make the folder writable"
        ) from error
    return path


def _own(home: Home) -> list[Path]:
    return sorted((home.root / FOLDER).glob("*.md"))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: expected a record as UTF-8 text, found {error}") from error


def _path(home: Home, target: str) -> Path:
    return home.root / FOLDER / f"{target}.yaml"


def _record(document: Document) -> TargetRecord:
    if not isinstance(document.record, TargetRecord):
        raise ConfigError(
            f"{document.path}: expected kind: target, found {document.record.kind}: move it away"
        )
    return document.record


def _put(values: dict[str, Any], field: str, value: float) -> None:
    *path, last = field.split(".")
    place = values
    for step in path:
        inner = dict(place.get(step) or {})
        place[step] = inner
        place = inner
    if path[:1] == ["caches"]:
        place.setdefault("shared_by", "device" if path[1:2] != ["l1"] else "unit")
    place[last] = int(value) if float(value).is_integer() else value
