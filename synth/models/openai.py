"""Any endpoint that speaks OpenAI's chat protocol, through the official client.

Endpoints differ in what they accept: some refuse JSON schemas, some refuse a temperature or a seed,
some want `max_completion_tokens`. Where one refuses such a parameter by name, it is left out (or
asked for in words) from then on, and that is said once.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from threading import Lock
from typing import Any

import openai

from kb.errors import ConfigError, ModelError
from synth.models import Message, Reply, Request

KEY_VARIABLES = ("KB_API_KEY", "OPENAI_API_KEY")
# What an endpoint may refuse, by the words that its message then holds.
_OPTIONAL = {
    "response_format": ("response_format", "json_schema", "grammar", "schema"),
    "max_tokens": ("max_tokens", "max_completion_tokens"),
    "temperature": ("temperature",),
    "seed": ("seed",),
}
_INSTEAD = {
    "response_format": "asking for JSON in the prompt instead",
    "max_tokens": "sending max_completion_tokens instead",
    "temperature": "leaving it to the endpoint",
    "seed": "leaving it out, so replies may differ between runs",
}


class OpenAI:
    """A chat model behind an OpenAI-compatible endpoint.

    The key comes from the environment (`KB_API_KEY`, else `OPENAI_API_KEY`) and is neither logged
    nor recorded.

    Args:
        name: the model's name at the endpoint.
        base_url: the endpoint, usually ending in ``/v1``; None for OpenAI's own.
        timeout_seconds: longest wait for one answer.
        retries: how often the client asks again after a 429, a 5xx or a broken connection.
        say: told, once each, what the endpoint refuses and what is done instead.
    """

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        timeout_seconds: float = 300.0,
        retries: int = 3,
        say: Callable[[str], None] | None = None,
    ) -> None:
        url = base_url or os.environ.get("OPENAI_BASE_URL") or None
        if url is not None and not url.startswith(("http://", "https://")):
            raise ConfigError(
                f"model.base_url: expected an address that begins with http:// or https://, "
                f"found {url!r}"
            )
        self._name = name
        self._url = url
        self._timeout = timeout_seconds
        self._retries = retries
        self._say = say
        self._refused: set[str] = set()
        self._lock = Lock()
        self._connected: openai.OpenAI | None = None

    @property
    def name(self) -> str:
        """The model's name at the endpoint."""
        return self._name

    def reply(self, request: Request) -> Reply:
        """Return the endpoint's answer; counts that it does not give are 0.

        Raises:
            ModelError: no key where one is needed, the endpoint cannot be reached or refuses the
                request, or what answers is not a chat endpoint.
        """
        client = self._client()
        while True:
            refused = frozenset(self._refused)
            started = time.perf_counter()
            try:
                completion: Any = client.chat.completions.create(
                    **self._arguments(request, refused)
                )
            except openai.APIStatusError as error:
                if self._adapt(error, request, refused):
                    continue
                raise self._explain(error) from error
            except openai.OpenAIError as error:
                raise self._explain(error) from error
            except ValueError as error:  # the client lets faults of a body that is no JSON through
                raise self._no_chat() from error
            return self._read(completion, time.perf_counter() - started)

    def _client(self) -> openai.OpenAI:
        with self._lock:
            if self._connected is None:
                name, key = _key()
                if not key and self._url is None:
                    raise ModelError(
                        f"model {self._name!r}: expected a key in {' or '.join(KEY_VARIABLES)}, "
                        "found none: set one, or name an endpoint without keys as model.base_url"
                    )
                if not key.isascii() or not key.isprintable():
                    raise ModelError(
                        f"{name}: expected a key of printable ASCII characters, found others: "
                        "copy it again"
                    )
                self._connected = openai.OpenAI(
                    # The client insists on a key; an endpoint that needs none ignores it.
                    api_key=key or "none",
                    base_url=self._url,
                    timeout=self._timeout,
                    max_retries=self._retries,
                )
            return self._connected

    def _arguments(self, request: Request, refused: frozenset[str]) -> dict[str, Any]:
        messages = [{"role": turn.role, "content": turn.content} for turn in request.messages]
        values: dict[str, Any] = {"model": self._name, "messages": messages}
        limit = "max_completion_tokens" if "max_tokens" in refused else "max_tokens"
        values[limit] = request.max_tokens
        if "temperature" not in refused:
            values["temperature"] = request.temperature
        if "seed" not in refused:
            values["seed"] = request.seed
        if request.schema is None:
            return values
        if "response_format" in refused:
            messages[-1] = {**messages[-1], "content": _in_words(request)}
        else:
            values["response_format"] = _response_format(request.schema)
        return values

    def _adapt(
        self, error: openai.APIStatusError, request: Request, refused: frozenset[str]
    ) -> bool:
        """Note the parameter that the endpoint refused; False where it is none that can go."""
        if error.status_code not in (400, 404, 415, 422, 500, 501) or _too_long(error):
            return False
        text = str(error.message).lower()
        for parameter, words in _OPTIONAL.items():
            if parameter in refused or (parameter == "response_format" and not request.schema):
                continue
            if any(word in text for word in words):
                with self._lock:
                    first = parameter not in self._refused
                    self._refused.add(parameter)
                if first and self._say is not None:
                    self._say(
                        f"model {self._name}: the endpoint refuses {parameter} "
                        f"({self._without_key(_short(str(error.message), 80))}): "
                        f"{_INSTEAD[parameter]}"
                    )
                return True
        return False

    def _explain(self, error: openai.OpenAIError) -> ModelError:
        where = f"model {self._name!r} at {self._url or 'the default endpoint'}"
        if isinstance(error, openai.APITimeoutError):
            return ModelError(
                f"{where}: no answer within {self._timeout:g} s: raise model.timeout_seconds, or "
                "lower model.reply_tokens"
            )
        if isinstance(error, openai.APIConnectionError):
            cause = error.__cause__ or error
            return ModelError(
                f"{where}: cannot connect ({self._without_key(_short(str(cause), 100))}): is it running, and is "
                "model.base_url right?"
            )
        if isinstance(error, openai.APIStatusError):
            return ModelError(f"{where}: {self._refusal(error)}")
        return ModelError(f"{where}: {self._without_key(_short(str(error)))}")

    def _refusal(self, error: openai.APIStatusError) -> str:
        said = self._without_key(_short(str(error.message)))
        if error.status_code in (401, 403):
            # The body is left out: some endpoints repeat a part of the key in it.
            return (
                f"the key was refused ({error.status_code}): set {KEY_VARIABLES[0]} to a valid one"
            )
        if _too_long(error):
            return (
                f"the prompt does not fit the model's context ({said}): lower model.context_tokens"
            )
        if error.status_code == 404:
            return (
                f"not found (404, {said}): check model.name, and whether model.base_url needs a "
                "trailing /v1"
            )
        if error.status_code == 429:
            return (
                f"still too many requests after {self._retries} retries (429, {said}): wait, or "
                "check the account's quota"
            )
        return f"it answered {error.status_code} ({said})"

    def _without_key(self, text: str) -> str:
        key = self._connected.api_key if self._connected is not None else ""
        return text.replace(key, "***") if key and len(key) > 4 else text

    def _no_chat(self) -> ModelError:
        return ModelError(
            f"model {self._name!r} at {self._url or 'the default endpoint'}: expected a chat "
            "completion, found another answer: model.base_url usually ends in /v1"
        )

    def _read(self, completion: Any, seconds: float) -> Reply:
        choices = getattr(completion, "choices", None)
        if not choices:
            raise self._no_chat()
        usage = completion.usage
        return Reply(
            text=choices[0].message.content or "",
            model=completion.model or self._name,
            tokens_in=usage.prompt_tokens if usage else 0,
            tokens_out=usage.completion_tokens if usage else 0,
            seconds=seconds,
            finish=choices[0].finish_reason or "stop",
        )


def _key() -> tuple[str, str]:
    """Return the first variable that holds a key, with the key; two empty texts where none does."""
    for name in KEY_VARIABLES:
        key = os.environ.get(name, "").strip()
        if key:
            return name, key
    return "", ""


def _response_format(schema: str) -> dict[str, Any]:
    return {
        "type": "json_schema",
        "json_schema": {"name": "answer", "strict": True, "schema": json.loads(schema)},
    }


def _in_words(request: Request) -> str:
    last: Message = request.messages[-1]
    return (
        f"{last.content}\n\nAnswer with one JSON value and nothing else. It must follow this JSON "
        f"schema:\n{request.schema}"
    )


def _too_long(error: openai.APIStatusError) -> bool:
    body = error.body if isinstance(error.body, dict) else {}
    marks = f"{body.get('code')} {body.get('type')} {error.message}".lower()
    return error.status_code in (400, 413, 422, 500) and (
        "context_length" in marks
        or "context_size" in marks
        or "context length" in marks
        or "context size" in marks
        or "context window" in marks
        or "too long" in marks
    )


def _short(text: str, width: int = 160) -> str:
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 1] + "…"
