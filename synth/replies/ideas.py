"""Ideas in a model's reply: the schema that it is asked for, and a tolerant reader."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from kb.records.schema import CATEGORIES
from synth.replies.source import fences, listed_under, load_value, without_thoughts

TITLE_CHARACTERS = 90
TEXT_CHARACTERS = 900
_SAME = 0.85  # share of common words from which on two ideas are one
# What the prompt shows in place of an idea; small models copy it.
EXAMPLE = {
    "title": f"at most {TITLE_CHARACTERS} characters",
    "category": "one of the above",
    "text": f"the idea in two to six sentences, at most {TEXT_CHARACTERS} characters",
}
_NO_LIST = 'no JSON object with a list "ideas" was found'
_OPENINGS = 400  # brackets that are tried: a model that repeats one for ever is not followed
_ALIASES = {
    "title": ("title", "name", "idea", "summary"),
    "text": ("text", "description", "details", "explanation", "plan", "idea"),
    "category": ("category", "kind", "type"),
    "passages": ("passages", "sources", "references", "citations"),
}


class Sketch(BaseModel):
    """An idea as a model wrote it.

    Attributes:
        passages: labels of the passages that it builds on, as the prompt numbers them ("P3").
    """

    model_config = ConfigDict(frozen=True, str_strip_whitespace=True)

    title: str = Field(min_length=3, max_length=TITLE_CHARACTERS)
    category: str = Field(min_length=1)
    text: str = Field(min_length=10, max_length=TEXT_CHARACTERS)
    passages: tuple[str, ...] = ()

    @field_validator("title", "text", mode="before")
    @classmethod
    def _within_bounds(cls, value: object, info: Any) -> object:
        # Endpoints without schemas know no maxLength; a long idea is cut, not lost.
        limit = TITLE_CHARACTERS if info.field_name == "title" else TEXT_CHARACTERS
        if not isinstance(value, str):
            return value
        flat = " ".join(value.split())
        if flat.rstrip(".").lower() == EXAMPLE[info.field_name]:
            raise ValueError("expected an idea, found the example of the format")
        return flat if len(flat) <= limit else flat[: limit - 1] + "…"

    @field_validator("category", mode="before")
    @classmethod
    def _known(cls, value: object) -> str:
        asked = str(value).strip().lower()
        close = get_close_matches(asked, CATEGORIES, n=1, cutoff=0.5)
        words = set(re.findall(r"[a-z]{4,}", asked))
        shared = [name for name in CATEGORIES if words & set(re.findall(r"[a-z]{4,}", name))]
        # A label of the model's own costs no idea: nothing is decided by it.
        return close[0] if close else shared[0] if shared else " ".join(asked.split())[:40]

    @field_validator("passages", mode="before")
    @classmethod
    def _labels(cls, value: object) -> tuple[str, ...]:
        found = value if isinstance(value, list | tuple) else [value or ""]
        labels = (f"P{number}" for entry in found for number in re.findall(r"\d+", str(entry)))
        return tuple(dict.fromkeys(labels))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sketches:
    """What a reply held.

    Attributes:
        sketches: valid ideas that are new, in the order given.
        problem: why there is none, or fewer than the reply gave, in one line; "" where all are.
    """

    sketches: tuple[Sketch, ...]
    problem: str = ""


def schema(count: int) -> str:
    """Return the JSON schema, as JSON, of a reply with at most `count` ideas.

    Every string and list is bounded: without bounds small models run on until they are cut off.
    """
    sketch = {
        "type": "object",
        "additionalProperties": False,
        "required": ["title", "category", "text", "passages"],
        "properties": {
            "title": {"type": "string", "maxLength": TITLE_CHARACTERS},
            "category": {"type": "string", "enum": list(CATEGORIES)},
            "text": {"type": "string", "maxLength": TEXT_CHARACTERS},
            "passages": {
                "type": "array",
                "maxItems": 6,
                "items": {"type": "string", "maxLength": 4},
            },
        },
    }
    ideas = {"type": "array", "minItems": 1, "maxItems": count, "items": sketch}
    return json.dumps(
        {
            "type": "object",
            "additionalProperties": False,
            "required": ["ideas"],
            "properties": {"ideas": ideas},
        },
        sort_keys=True,
    )


def read_sketches(text: str, tried: Iterable[tuple[str, str]] = ()) -> Sketches:
    """Read the ideas of a reply.

    JSON is found inside prose and fences; trailing commas, Python literals, common other key names
    and a list that was cut off in the middle are understood.

    Args:
        text: the reply.
        tried: titles and texts of the ideas that exist already; they are not given again.
    """
    said = without_thoughts(text)
    if said is None:
        return Sketches(sketches=(), problem="the reply ended inside its thinking block")
    entries = list(_entries(said))
    if not entries:
        empty = listed_under("ideas", said) == []
        fault = 'the list "ideas" is empty' if empty else _NO_LIST
        return Sketches(sketches=(), problem=fault)
    valid, faults = [], []
    for entry in entries:
        try:
            valid.append(Sketch.model_validate(_renamed(entry)))
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"])) or "idea"
            faults.append(f"{place}: {first['msg']}, found {str(first['input'])[:60]!r}")
    fresh = _fresh(valid, tried)
    problem = (
        f"{len(faults)} of {len(entries)} ideas were not valid ({faults[0]})" if faults else ""
    )
    if valid and not fresh:
        problem = f"all {len(valid)} ideas were tried before: give other ones"
    return Sketches(sketches=fresh, problem=problem)


@dataclass(frozen=True, slots=True)
class _Print:
    """What is compared of an idea: its words, without case and punctuation."""

    title: tuple[str, ...]
    text: tuple[str, ...]
    words: frozenset[str]

    @classmethod
    def of(cls, title: str, text: str) -> _Print:
        parts = [tuple(re.findall(r"[a-z0-9]+", part.lower())) for part in (title, text)]
        return cls(parts[0], parts[1], frozenset(parts[0] + parts[1]))

    def same(self, other: _Print) -> bool:
        """Say whether two ideas are the same but for spelling or a few words."""
        if self.title == other.title or self.text == other.text:
            return True
        union = len(self.words | other.words)
        return union > 0 and len(self.words & other.words) / union >= _SAME


def _fresh(found: Iterable[Sketch], tried: Iterable[tuple[str, str]]) -> tuple[Sketch, ...]:
    known = [_Print.of(title, text) for title, text in dict.fromkeys(tried)]
    fresh = []
    for sketch in found:
        mark = _Print.of(sketch.title, sketch.text)
        if not any(mark.same(other) for other in known):
            known.append(mark)
            fresh.append(sketch)
    return tuple(fresh)


def _entries(text: str) -> Iterator[Any]:
    """Yield what may be ideas, from the first place in the reply that holds any."""
    for piece in (text, *fences(text)):
        loaded = load_value(piece.strip())
        if loaded is not None:
            yield from _listed(loaded)
            return
    found = list(_scattered(text))
    yield from found or _pieces(text)


def _scattered(text: str) -> Iterator[Any]:
    """Yield the ideas of every JSON value in prose, or in a list that was cut off."""
    decoder = json.JSONDecoder(strict=False)
    at = 0
    for _ in range(_OPENINGS):
        opening = re.compile(r"[{\[]").search(text, at)
        if opening is None:
            return
        try:
            loaded, at = decoder.raw_decode(text, opening.start())
        except (ValueError, RecursionError):
            at = opening.start() + 1
            continue
        yield from _listed(loaded)


def _listed(loaded: Any) -> list[Any]:
    if isinstance(loaded, dict):
        inner = loaded.get("ideas", loaded.get("Ideas"))
        if isinstance(inner, list | dict):
            return _listed(inner)
        if any(name in loaded for name in _ALIASES["title"]):
            return [loaded]
        return [value for value in loaded.values() if isinstance(value, dict)]
    if isinstance(loaded, list):
        return [entry for entry in loaded if isinstance(entry, dict)]
    return []


def _pieces(text: str) -> Iterator[Any]:
    """Yield the whole objects of a list that was cut off, or that holds a fault elsewhere."""
    for match in re.finditer(r"\{[^{}]*\}", text):
        loaded = load_value(match.group())
        if isinstance(loaded, dict) and any(name in loaded for name in _ALIASES["title"]):
            yield loaded


def _renamed(entry: dict[str, Any]) -> dict[str, Any]:
    """Give common other key names their right ones; `passages` may be missing."""
    lower = {str(key).lower(): value for key, value in entry.items()}
    named: dict[str, Any] = {}
    used: set[str] = set()
    for name, aliases in _ALIASES.items():
        alias = next((a for a in aliases if a in lower and a not in used), None)
        if alias is not None:
            named[name] = lower[alias]
            used.add(alias)
    return named
