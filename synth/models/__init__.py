"""Chat back ends."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Protocol

from kb.registry import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One turn of a conversation."""

    role: str  # system | user | assistant
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is asked of a model; equal requests have equal `key()`s.

    Attributes:
        schema: a JSON schema that the answer must follow, as a JSON text, or None for free text.
        seed: sent to endpoints that take one, and part of the identity of the request.
        model: name of the model that is asked: what one answered, another did not.
    """

    messages: tuple[Message, ...]
    max_tokens: int
    temperature: float
    seed: int
    schema: str | None = None
    model: str = ""

    def to_json(self) -> str:
        """Return the request as canonical JSON: equal requests give equal texts."""
        return json.dumps(asdict(self), sort_keys=True, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Request:
        """Return the request that `to_json` wrote."""
        values = json.loads(text)
        messages = tuple(Message(**message) for message in values.pop("messages"))
        return cls(messages=messages, **values)

    def key(self) -> str:
        """Return the name of this request in a record: SHA-256 over its canonical JSON."""
        return hashlib.sha256(self.to_json().encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a model answered.

    Attributes:
        finish: stop, length, content_filter, empty, or what else the endpoint said.
        cached: the part of `tokens_in` that the provider had in its cache.
        cost: in the currency of the prices, None where nobody knows.
        lost: tokens that were paid for in answers that broke off before this one.
    """

    text: str
    model: str
    tokens_in: int
    tokens_out: int
    seconds: float
    finish: str
    cached: int = 0
    cost: float | None = None
    lost: int = 0


class Model(Protocol):
    """Answers requests."""

    @property
    def name(self) -> str:
        """What the record calls it."""
        ...

    def reply(self, request: Request) -> Reply:
        """Return the answer.

        Raises:
            ModelError: the model cannot be reached or refuses the request.
        """
        ...


MODELS: Registry[Model] = Registry(
    "model",
    {
        "anthropic": "synth.models.anthropic:Anthropic",
        "google": "synth.models.providers:google",
        "llamacpp": "synth.models.providers:llamacpp",
        "ollama": "synth.models.providers:ollama",
        "openai": "synth.models.openai:OpenAI",
        "openrouter": "synth.models.providers:openrouter",
        "responses": "synth.models.responses:Responses",
        "sglang": "synth.models.providers:sglang",
        "vllm": "synth.models.providers:vllm",
        "mailbox": "synth.models.mailbox.model:Mailbox",
        "scripted": "synth.models.scripted:Scripted",
    },
)
