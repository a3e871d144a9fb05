"""The sections of a task file: precision, search, stop, models, and where candidates are judged."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator


class StrictModel(BaseModel):
    """Takes no other keys and no other types than it declares."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Tolerances(StrictModel):
    """Explicit tolerances: ``|candidate - truth| <= absolute + relative * |truth|``."""

    absolute: float = Field(ge=0, allow_inf_nan=False)
    relative: float = Field(ge=0, allow_inf_nan=False)

    @field_validator("absolute", "relative", mode="before")
    @classmethod
    def _number(cls, value: object) -> object:
        # YAML 1.1 reads 1e-4 as a string.
        if isinstance(value, str):
            try:
                return float(value)
            except ValueError:
                return value
        return float(value) if type(value) is int else value


PrecisionName = Literal["strict", "framework", "tf32", "half", "kernelbench"]


class RequestSettings(StrictModel):
    """What a model may ask of the knowledge base before it gives ideas."""

    steps: int = Field(default=3, ge=0, le=10, description="replies with requests; 0: none")
    tokens: int = Field(default=16_000, ge=500, description="of all answers together, at most")


class SearchSettings(StrictModel):
    """How the graph is searched."""

    policy: str = "beam"
    exploration: Annotated[float, Field(ge=0, strict=False)] | None = Field(
        default=None, description="of policy uct: how much untried nodes count, 1.4 where unset"
    )
    islands: int | None = Field(
        default=None, ge=2, le=64, description="of policy islands: how many, 3 where unset"
    )
    migration: int | None = Field(
        default=None, ge=1, description="of policy islands: rounds between two migrations"
    )
    rounds: int = Field(default=5, ge=1, le=1000)
    ideas: int = Field(default=4, ge=1, le=64, description="a round, over all parents")
    branches: int = Field(default=3, ge=1, le=64, description="implementations of an idea")
    seed: int = Field(default=0, ge=0, lt=2**31)
    memory: Literal["rule", "trajectory", "siblings", "both", "clean"] = Field(
        default="rule", description="how much of the search a model is told, see docs/prompts.md"
    )
    knowledge: Annotated[
        float,
        Field(
            ge=0, le=1, strict=False, description="share of a search's parents that get passages"
        ),
    ] = 1.0
    overlap: bool = Field(
        default=False,
        description="write while others are judged: two rounds are open at once, see docs/search.md",
    )
    knob_trials: int = Field(
        default=6, ge=0, le=200, description="values of declared KNOBS tried for an idea"
    )
    requests: RequestSettings = RequestSettings()


class StopSettings(StrictModel):
    """When a run ends; null means never for that reason."""

    candidates: int | None = Field(default=60, ge=1)
    minutes: (
        Annotated[
            float,
            Field(
                gt=0,
                strict=False,
                description="preparation and final measurement included; something is tried at least",
            ),
        ]
        | None
    ) = 4.0
    speedup: Annotated[float, Field(gt=0, strict=False)] | None = None
    stalled_rounds: int | None = Field(default=3, ge=1)
    roofline: Annotated[float, Field(gt=0, le=1, strict=False)] | None = 0.95
    tokens: int | None = Field(
        default=None, ge=1, description="of language models, prompts and replies together"
    )
    money: Annotated[float, Field(gt=0, strict=False)] | None = Field(
        default=None, description="for language models, in the currency of the prices"
    )
    requests: int | None = Field(default=None, ge=1, description="to language models")


class ModelSettings(StrictModel):
    """A language model; its key comes from the environment or the keyring, never from here."""

    name: str
    base_url: str | None = None
    provider: str = "openai"
    key: str | None = Field(
        default=None,
        description="the NAME of the environment variable (or keyring entry) that holds the key",
    )
    temperature: Annotated[float, Field(ge=0, le=2, strict=False)] = 0.7
    context_tokens: int = Field(default=32_000, ge=1_000, description="prompt and reply together")
    reply_tokens: int = Field(default=8_000, ge=64)
    tokenizer: str | None = Field(
        default=None,
        description="the model's tokenizer.json, or its folder; without it tokens are counted by tiktoken",
    )
    timeout_seconds: Annotated[float, Field(gt=0, strict=False)] = 300.0
    retries: int = Field(default=3, ge=0, le=20)
    concurrency: int = Field(
        default=4,
        ge=1,
        le=256,
        description="requests under way at once, where `search.overlap` is on",
    )
    weight: Annotated[float, Field(gt=0, strict=False)] = Field(
        default=1.0, description="in an ensemble: how often it is asked"
    )

    @field_validator("key")
    @classmethod
    def _named(cls, value: str | None) -> str | None:
        # The value is not repeated where a key itself was pasted.
        if value is not None and not re.fullmatch(r"[A-Z_][A-Z0-9_]{0,63}", value):
            raise ValueError("expected the name of an environment variable, not the key itself")
        return value

    @field_validator("base_url")
    @classmethod
    def _bare(cls, value: str | None) -> str | None:
        if value is not None and re.search(r"//[^/]*@|[?&](api_?)?(key|token)=", value, re.I):
            raise ValueError("expected an address without credentials: set the key elsewhere")
        return value


def _several(value: object) -> object:
    if isinstance(value, dict):
        return (value,)
    if isinstance(value, list | tuple) and value:
        return tuple(value)
    raise ValueError("expected a model as {name: …}, or a list of such")


Models = Annotated[tuple[ModelSettings, ...], BeforeValidator(_several)]


class ModelsSettings(StrictModel):
    """Models by what they write; each is one model or a list (an ensemble)."""

    ideas: Models | None = None
    code: Models | None = None
    repair: Models | None = None
    diagnosis: Models | None = None
    retrieval: Models | None = None

    @field_validator("ideas", "code", "repair", "diagnosis", "retrieval")
    @classmethod
    def _distinct(cls, value: tuple[ModelSettings, ...] | None) -> object:
        names = [one.name for one in value or ()]
        if len(set(names)) < len(names):
            raise ValueError("expected models with different names")
        return value


class SpoolSettings(StrictModel):
    """Judge elsewhere: `kb judge FOLDER` runs on the machine with the device."""

    spool: str = Field(min_length=1, description="folder, seen from the task file")
