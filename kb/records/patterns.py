"""Patterns of computations, faults and symptoms as data: how to recognise them, and what to ask then.

`hardware_docs/patterns/*.yaml` comes with `kb`; a home's `patterns/*.yaml` is added to it, and a
pattern of the same name there replaces the shipped one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from kb.config import shipped_docs
from kb.errors import RecordError
from kb.records.types import Kind

FOLDER = "patterns"
# How records are named in patterns, by their kind.
FOLDERS: Mapping[Kind, str] = {"idea": "ideas", "guide": "guidance", "kernel": "kernels"}
Area = Literal["computation", "family", "overview", "fault", "symptom", "setting"]
# What a condition may ask about; search.patterns.recognise says what each means.
SUBJECTS = (
    "is",
    "operator",
    "family",
    "path",
    "word",
    "outcome",
    "message",
    "idea",
    "symptom",
    "device",
    "language",
)

Question = Annotated[str, Field(min_length=8, max_length=240)]
Name = Annotated[str, Field(pattern=r"^(?:ideas|guidance|kernels)/[a-z0-9][a-z0-9.-]*$")]
Condition = Annotated[str, Field(pattern=rf"^(?:{'|'.join(SUBJECTS)}): ?\S.*$")]


class When(BaseModel):
    """When a pattern is there: every one of `all`, one of `any` where some are named, none of `none`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    all: tuple[Condition, ...] = ()
    any: tuple[Condition, ...] = ()
    none: tuple[Condition, ...] = ()

    @field_validator("all", "any", "none")
    @classmethod
    def _readable(cls, conditions: tuple[str, ...]) -> tuple[str, ...]:
        for one in conditions:
            subject, _, wanted = one.partition(":")
            try:
                re.compile(wanted if subject in ("message", "idea") else "")
            except re.error as error:
                raise ValueError(f"{one}: no regular expression: {error}") from error
        return conditions


class Pattern(BaseModel):
    """Something that a task, a program's diagnosis or a failure shows, and what to ask because of it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    title: str = Field(min_length=3, max_length=120, description="what an engineer calls it")
    area: Area = "computation"
    weight: float = Field(default=1.0, gt=0, le=2, description="what it counts beside others")
    when: When
    families: tuple[str, ...] = Field(default=(), description="operator families that it concerns")
    questions: tuple[Question, ...] = Field(
        default=(), description="what an engineer would ask of a library then, a sentence each"
    )
    see: tuple[Name, ...] = Field(
        default=(), description="records that answer it, the most important first, as ideas/NAME"
    )
    instead: tuple[str, ...] = Field(
        default=(),
        description="more general patterns that this one stands for where both are there",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Recognised:
    """A pattern that is there.

    Attributes:
        shown: what shows it, in words.
        share: of the reference's estimated cost that its operator families take.
    """

    pattern: Pattern
    shown: str
    share: float = 1.0


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    patterns: tuple[Pattern, ...]


def load_patterns(*folders: Path) -> tuple[Pattern, ...]:
    """Read the shipped patterns and those of some folders, later ones in place of earlier ones.

    Raises:
        RecordError: a file breaks the schema, or names a pattern twice.
    """
    found = {one.name: one for one in _shipped()}
    for folder in folders:
        if folder.is_dir():
            found.update({one.name: one for one in _folder(folder)})
    return tuple(found.values())


@cache
def _shipped() -> tuple[Pattern, ...]:
    return tuple(_folder(shipped_docs() / FOLDER))


def _folder(folder: Path) -> Iterator[Pattern]:
    seen: dict[str, Path] = {}
    for path in sorted(folder.glob("*.yaml")):
        for pattern in read_patterns(path):
            if pattern.name in seen:
                raise RecordError(
                    f"{path}: expected a pattern's name once, found {pattern.name!r} "
                    f"in {seen[pattern.name].name} too"
                )
            seen[pattern.name] = path
            yield pattern


def read_patterns(path: Path) -> tuple[Pattern, ...]:
    """Read one file of patterns.

    Raises:
        RecordError: it cannot be read, or breaks the schema; one line says where.
    """
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        loaded = yaml.load(path.read_text(encoding="utf-8"), Loader=loader)  # noqa: S506 - both loaders are the safe one
        return _File.model_validate(loaded).patterns
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise RecordError(f"{path}: {' '.join(str(error).split())}") from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise RecordError(f"{path}: {place}: {first['msg']} (found {first['input']!r})") from error
