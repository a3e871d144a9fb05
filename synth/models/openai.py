"""Any endpoint that speaks OpenAI's chat protocol, through the official client.

Endpoints differ in what they accept: some refuse JSON schemas, some refuse a temperature or a seed,
some want `max_completion_tokens`. Where one refuses such a parameter by name, it is left out (or
asked for in words) from then on, and that is said once. Answers are streamed, so that progress can
be shown and a slow one stopped; an endpoint that answers in one piece is understood too.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any

import openai

from synth.models import Message, Reply, Request
from synth.models.wire import Answer, Broken, Line, Wire

KEY_VARIABLES = ("KB_API_KEY", "OPENAI_API_KEY")


class OpenAI:
    """A chat model behind an OpenAI-compatible endpoint.

    The key comes from the environment or the keyring, and is neither logged nor recorded.

    Args:
        name: the model's name at the endpoint.
        base_url: the endpoint, usually ending in ``/v1``; None for OpenAI's own.
        keys: names under which the key may be found, the first one that holds something wins.
        timeout_seconds: longest wait for one answer.
        retries: how often to ask again after a 429, a 5xx or a broken connection.
        say: told, once each, what the endpoint refuses and what is done instead, and every wait.
        heard: told the model and how many tokens of an answer have come so far.
        sleep: waits between tries.
    """

    def __init__(  # noqa: PLR0913 - an endpoint has that many properties
        self,
        name: str,
        *,
        base_url: str | None = None,
        keys: tuple[str, ...] = KEY_VARIABLES,
        timeout_seconds: float = 300.0,
        retries: int = 3,
        say: Callable[[str], None] | None = None,
        heard: Callable[[str, int], None] | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        url = base_url or os.environ.get("OPENAI_BASE_URL") or None
        line = Line(
            url=url,
            keys=keys,
            needs_key=url is None,
            timeout_seconds=timeout_seconds,
            retries=retries,
            say=say,
            heard=heard,
            sleep=sleep,
        )
        self._wire = Wire(openai, name, line)
        self._lock = Lock()
        self._connected: openai.OpenAI | None = None

    @property
    def name(self) -> str:
        """The model's name at the endpoint."""
        return self._wire.name

    def reply(self, request: Request) -> Reply:
        """Return the endpoint's answer; counts that it does not give are 0.

        Raises:
            ModelError: no key where one is needed, the endpoint cannot be reached or refuses the
                request, or what answers is not a chat endpoint.
        """
        client = self._client()

        def call(answer: Answer) -> None:
            started = time.perf_counter()
            raw = client.chat.completions.with_raw_response.create(**self._arguments(request))
            if "event-stream" not in raw.headers.get("content-type", ""):
                _read_whole(json.loads(raw.http_response.read()), answer)
                return
            with raw.parse() as stream:
                for chunk in stream:
                    if _read_chunk(chunk.to_dict(), answer):
                        self._wire.listen(answer, started)
            if answer.pieces and not answer.finish:
                raise Broken("no end")

        return self._wire.ask(request.schema is not None, call)

    def _client(self) -> openai.OpenAI:
        with self._lock:
            if self._connected is None:
                key = self._wire.key()
                self._connected = openai.OpenAI(
                    # The client insists on a key; an endpoint that needs none ignores it.
                    api_key=key.reveal() or "none",
                    base_url=self._wire.line.url,
                    timeout=self._wire.line.timeout_seconds,
                    max_retries=0,
                )
            return self._connected

    def _arguments(self, request: Request) -> dict[str, Any]:
        refused = self._wire.refused
        messages = [{"role": turn.role, "content": turn.content} for turn in request.messages]
        values: dict[str, Any] = {"model": self.name, "messages": messages, "stream": True}
        limit = "max_completion_tokens" if "max_tokens" in refused else "max_tokens"
        values[limit] = request.max_tokens
        if "stream_options" not in refused:
            values["stream_options"] = {"include_usage": True}
        if "temperature" not in refused:
            values["temperature"] = request.temperature
        if "seed" not in refused:
            values["seed"] = request.seed
        if request.schema is None:
            return values
        if "response_format" in refused:
            messages[-1] = {**messages[-1], "content": in_words(request)}
        else:
            values["response_format"] = _response_format(request.schema)
        return values


def in_words(request: Request) -> str:
    """Return the last message with its schema told in words."""
    last: Message = request.messages[-1]
    return (
        f"{last.content}\n\nAnswer with one JSON value and nothing else. It must follow this JSON "
        f"schema:\n{request.schema}"
    )


def _response_format(schema: str) -> dict[str, Any]:
    return {
        "type": "json_schema",
        "json_schema": {"name": "answer", "strict": True, "schema": json.loads(schema)},
    }


def _read_chunk(chunk: Mapping[str, Any], answer: Answer) -> bool:
    """Take one event in; say whether it brought a piece of the reply or of its thinking."""
    choices = chunk.get("choices")
    if not isinstance(choices, list):
        return False
    answer.valid = True
    answer.model = chunk.get("model") or answer.model
    _read_usage(chunk.get("usage"), answer)
    if not choices:
        return False
    answer.finish = choices[0].get("finish_reason") or answer.finish
    return _read_message(choices[0].get("delta") or {}, answer)


def _read_whole(body: Any, answer: Answer) -> None:
    """Take in an answer that came in one piece."""
    choices = body.get("choices") if isinstance(body, dict) else None
    if not isinstance(choices, list):
        return
    answer.valid = True
    answer.model = body.get("model") or ""
    _read_usage(body.get("usage"), answer)
    if choices:
        _read_message(choices[0].get("message") or {}, answer)
        answer.finish = choices[0].get("finish_reason") or "stop"


def _read_message(message: Mapping[str, Any], answer: Answer) -> bool:
    said = message.get("content") or message.get("refusal")
    if isinstance(said, str) and said:
        answer.parts.append(said)
    # Servers that part the thinking from the answer name it so; it is counted, not read.
    return bool(said or message.get("reasoning_content") or message.get("reasoning"))


def _read_usage(usage: Any, answer: Answer) -> None:
    if not isinstance(usage, dict):
        return
    answer.tokens_in = usage.get("prompt_tokens") or 0
    answer.tokens_out = usage.get("completion_tokens") or 0
    answer.cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    cost = usage.get("cost")  # routers say what they took
    answer.cost = float(cost) if isinstance(cost, int | float) else None
