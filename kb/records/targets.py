"""The targets of one user: the shipped records, records of their own, and single figures of theirs.

In the home, ``targets/*.md`` are whole records; one of the name of a shipped record stands for it.
``targets/NAME.yaml`` holds single figures with their sources, stronger than the record of that name.
"""

from __future__ import annotations

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
    """A figure of a target, as the user has it.

    Attributes:
        field: place in the record, with dots: ``caches.l2.bytes``.
        value: in SI units.
        source: document, section, page and row.
        accepted: the day, as ISO 8601 has it.
        instead_of: what the record says, where that is another value.
    """

    field: str
    value: float
    source: str
    accepted: str = ""
    instead_of: float | None = None


class Overlay(_Strict):
    """The user's own figures of one target."""

    target: str
    facts: tuple[Fact, ...] = ()


def load_targets(home: Home) -> list[Document]:
    """Return every target record as this user has it.

    Raises:
        ConfigError: a file of the home cannot be used.
        RecordError: a record breaks the schema.
    """
    own = [parse_record(_read(path), path.as_posix()) for path in _own(home)]
    known = {_record(one).name: one for one in own}
    shipped = load_library(shipped_docs() / "targets")
    every = [*(one for one in shipped if _record(one).name not in known), *own]
    return [overlaid(one, load_overlay(home, _record(one).name)) for one in every]


def overlaid(document: Document, overlay: Overlay | None) -> Document:
    """Return a record with the user's figures in it.

    Raises:
        ConfigError: a figure fits into no record.
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
            f"figures of {overlay.target}: {place}: {first['msg']}: correct "
            f"targets/{overlay.target}.yaml in KB_HOME"
        ) from error
    return replace(document, record=record)


def load_overlay(home: Home, target: str) -> Overlay | None:
    """Return the user's figures of a target, None where there are none.

    Raises:
        ConfigError: the file cannot be used.
    """
    path = home.root / FOLDER / f"{target}.yaml"
    try:
        loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
        return Overlay.model_validate(loaded)
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError, yaml.YAMLError, ValidationError) as error:
        found = " ".join(str(error).split())[:200]
        raise ConfigError(
            f"{path}: expected figures (target, facts), found {found}: mend it or move it away"
        ) from error


def _own(home: Home) -> list[Path]:
    return sorted((home.root / FOLDER).glob("*.md"))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: expected a record as UTF-8 text, found {error}") from error


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
