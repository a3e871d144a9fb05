"""The user's corrections of scopes: one file in the home, stronger than what was found."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from fnmatch import translate
from functools import cache
from hashlib import blake2b
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from kb.errors import ConfigError
from kb.records.schema import OperatorFamily
from kb.records.types import Scope

if TYPE_CHECKING:
    from kb.config import Home
    from kb.store.documents import Store

FILE = "scopes.yaml"
STATE = "scopes"
SHAPE = "- {document: GLOB, section: GLOB, scope: {vendor: [..], architecture: [..], language: [..], operator: [..]}}"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Corrected(_Strict):
    """The fields of a scope that are replaced; an empty list applies everywhere."""

    vendor: tuple[str, ...] | None = None
    architecture: tuple[str, ...] | None = None
    language: tuple[str, ...] | None = None
    operator: tuple[OperatorFamily, ...] | None = None
    dtype: tuple[str, ...] | None = None


class Correction(_Strict):
    """One entry of the file.

    Attributes:
        document: a glob on the document's name, its path or its last part.
        section: a glob on the passage's breadcrumb or one of its steps; without it the whole
            document is meant.
    """

    document: str = "*"
    section: str | None = None
    scope: Corrected

    def covers(self, key: str, shown: str, section: str | None) -> bool:
        """Say whether it is about this document, or this section of it."""
        names = (shown, key, PurePosixPath(shown).name)
        if not any(_glob(self.document).fullmatch(name) for name in names):
            return False
        if self.section is None:
            return True
        steps = () if section is None else (section, *section.split(" > "))
        return any(_glob(self.section).fullmatch(step) for step in steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The corrections in the order of their file: a later one is stronger.

    Attributes:
        digest: of the file.
    """

    corrections: tuple[Correction, ...] = ()
    digest: str = ""

    def apply(self, key: str, shown: str, section: str | None, found: Scope) -> Scope:
        """Return `found` as corrected for a document, or for a section of it."""
        scope = found
        for one in self.corrections:
            if one.covers(key, shown, section):
                new: Mapping[str, Any] = one.scope.model_dump(exclude_none=True)
                scope = replace(scope, **new)
        return scope

    def reasons(self, key: str, shown: str, section: str | None) -> tuple[str, ...]:
        """Return which corrections are about a document, or about a section of it."""
        return tuple(
            f"{FILE}, entry {number}"
            for number, one in enumerate(self.corrections, start=1)
            if one.covers(key, shown, section)
        )


NO_RULES = Rules()


def load_rules(home: Home) -> Rules:
    """Read the corrections of `home`; none where there is no file.

    Raises:
        ConfigError: the file cannot be used.
    """
    path = home.root / FILE
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return NO_RULES
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}): check it") from error
    try:
        loaded = yaml.safe_load(data) or []
        corrections = TypeAdapter(tuple[Correction, ...]).validate_python(loaded)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: expected YAML, {' '.join(str(error).split())}") from error
    except ValidationError as error:
        first = error.errors()[0]
        place = _place(first["loc"])
        raise ConfigError(
            f"{path}: {place}: {first['msg']} (found {str(first['input'])[:60]!r}): expected {SHAPE}"
        ) from error
    for number, one in enumerate(corrections, start=1):
        _check(path, number, one)
    return Rules(corrections=corrections, digest=blake2b(data, digest_size=16).hexdigest())


def sync_rules(store: Store, rules: Rules) -> int:
    """Apply changed corrections to what is in the store; return how many passages they moved.

    Nothing is read or embedded again.
    """
    if (store.state(STATE) or "") == rules.digest:
        return 0
    moved = store.rescope(rules.apply)
    store.set_state(STATE, rules.digest)
    return moved


def _check(path: Path, number: int, one: Correction) -> None:
    """A misspelt value would hide passages in silence."""
    from ingest.scope.vocabulary import words

    for field, known in words().known.items():
        for value in getattr(one.scope, field) or ():
            if value not in known:
                close = get_close_matches(value, known, n=1)
                hint = f" (did you mean {close[0]!r}?)" if close else ""
                listed = ", ".join(sorted(known))
                raise ConfigError(
                    f"{path}: entry {number}: unknown {field} {value!r}{hint}: known are {listed}"
                )


def _place(location: tuple[int | str, ...]) -> str:
    first, *rest = location or ("the file",)
    names = {field.name for field in fields(Scope)} | {"scope", "document", "section"}
    told = ".".join(str(part) for part in rest if part in names or not isinstance(part, int))
    start = f"entry {first + 1}" if isinstance(first, int) else str(first)
    return f"{start}: {told}" if told else start


@cache
def _glob(pattern: str) -> re.Pattern[str]:
    return re.compile(translate(pattern), re.IGNORECASE)
