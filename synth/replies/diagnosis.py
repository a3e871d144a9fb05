"""A diagnosis in a model's reply: the schema that it is asked for, and a reader."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from kb.records.schema import SYMPTOMS
from synth.bottleneck import Bottleneck
from synth.replies.source import listed_under, without_thoughts

MOST = 6


class _Point(BaseModel):
    model_config = ConfigDict(frozen=True, str_strip_whitespace=True)

    symptom: str
    text: str = Field(min_length=10)
    evidence: str = Field(min_length=3)
    confidence: Literal["high", "medium", "low"]
    later: bool = False

    @field_validator("symptom")
    @classmethod
    def _known(cls, value: str) -> str:
        name = value.lower().replace(" ", "-").replace("_", "-")
        if name not in SYMPTOMS:
            raise ValueError(f"expected one of {', '.join(SYMPTOMS)}")
        return name

    @field_validator("confidence", mode="before")
    @classmethod
    def _lower(cls, value: object) -> object:
        return value.strip().lower() if isinstance(value, str) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """What a reply held; `problem` says in one line why there is nothing."""

    points: tuple[Bottleneck, ...]
    problem: str = ""


def diagnosis_schema() -> str:
    """Return the JSON schema, as JSON, of a reply; every string and list is bounded."""
    point = {
        "type": "object",
        "additionalProperties": False,
        "required": ["symptom", "text", "evidence", "confidence", "later"],
        "properties": {
            "symptom": {"type": "string", "enum": list(SYMPTOMS)},
            "text": {"type": "string", "maxLength": 400},
            "evidence": {"type": "string", "maxLength": 120},
            "confidence": {"type": "string", "enum": ["high", "medium", "low"]},
            "later": {"type": "boolean"},
        },
    }
    whole = {
        "type": "object",
        "additionalProperties": False,
        "required": ["bottlenecks"],
        "properties": {
            "bottlenecks": {"type": "array", "minItems": 1, "maxItems": MOST, "items": point}
        },
    }
    return json.dumps(whole, sort_keys=True)


def read_diagnosis(text: str) -> Read:
    """Read the bottlenecks of a reply, worst first; each symptom counts once."""
    said = without_thoughts(text)
    if said is None:
        return Read(points=(), problem="the reply ended inside its thinking block")
    listed = listed_under("bottlenecks", said)
    if listed is None:
        return Read(points=(), problem='no JSON object with a list "bottlenecks" was found')
    found: dict[str, Bottleneck] = {}
    problem = "the list of bottlenecks is empty"
    for entry in listed:
        try:
            point = _Point.model_validate(entry)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "entry"
            problem = f"{where}: {first['msg']}, found {str(first['input'])[:60]!r}"
            continue
        found.setdefault(
            point.symptom,
            Bottleneck(
                symptom=point.symptom,
                text=point.text[:400],
                evidence=f"a model, by: {point.evidence[:120]}",
                confidence=point.confidence,
                later=point.later,
            ),
        )
    points = tuple(sorted(found.values(), key=lambda point: point.later))[:MOST]
    return Read(points=points, problem="" if points else problem)
