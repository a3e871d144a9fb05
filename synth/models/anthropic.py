"""Anthropic's messages, through the official client."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any

import anthropic

from synth.models import Reply, Request
from synth.models.openai import in_words
from synth.models.wire import Answer, Broken, Line, Wire

KEY_VARIABLES = ("ANTHROPIC_API_KEY", "KB_API_KEY")
# What this protocol calls the reasons for which an answer ended.
_ENDS = {"end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length",
         "refusal": "content_filter"}  # fmt: skip


class Anthropic:
    """A model behind Anthropic's messages endpoint, or one that speaks its protocol.

    The protocol knows no seed: replies differ from run to run, and the record alone repeats them.
    Arguments are those of `synth.models.openai.OpenAI`; `base_url` has no ``/v1`` at its end.
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
        url = base_url or os.environ.get("ANTHROPIC_BASE_URL") or None
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
        self._wire = Wire(anthropic, name, line)
        self._lock = Lock()
        self._connected: anthropic.Anthropic | None = None

    @property
    def name(self) -> str:
        """The model's name at the endpoint."""
        return self._wire.name

    def reply(self, request: Request) -> Reply:
        """Return the endpoint's answer.

        Raises:
            ModelError: no key where one is needed, the endpoint cannot be reached or refuses the
                request, or what answers is not such an endpoint.
        """
        client = self._client()

        def call(answer: Answer) -> None:
            started = time.perf_counter()
            raw = client.messages.with_raw_response.create(**self._arguments(request))
            if "event-stream" not in raw.headers.get("content-type", ""):
                _read_whole(json.loads(raw.http_response.read()), answer)
                return
            with raw.parse() as stream:
                for event in stream:
                    if _read_event(event.to_dict(), answer):
                        self._wire.listen(answer, started)
            if answer.valid and not answer.finish:
                raise Broken("no end")

        return self._wire.ask(request.schema is not None, call)

    def _client(self) -> anthropic.Anthropic:
        with self._lock:
            if self._connected is None:
                key = self._wire.key()
                self._connected = anthropic.Anthropic(
                    api_key=key.reveal() or "none",
                    base_url=self._wire.line.url,
                    timeout=self._wire.line.timeout_seconds,
                    max_retries=0,
                )
            return self._connected

    def _arguments(self, request: Request) -> dict[str, Any]:
        refused = self._wire.refused
        system = "\n\n".join(turn.content for turn in request.messages if turn.role == "system")
        turns = [
            {"role": turn.role, "content": turn.content}
            for turn in request.messages
            if turn.role != "system"
        ]
        values: dict[str, Any] = {
            "model": self.name,
            "messages": turns,
            "max_tokens": request.max_tokens,
            "stream": True,
        }
        if system:
            values["system"] = system
        if "temperature" not in refused:
            # OpenAI's scale ends at 2, this one at 1.
            values["extra_body"] = {"temperature": min(request.temperature, 1.0)}
        if request.schema is None:
            return values
        if "response_format" in refused:
            turns[-1] = {**turns[-1], "content": in_words(request)}
        else:
            form = {"type": "json_schema", "schema": json.loads(request.schema)}
            values["output_config"] = {"format": form}
        return values


def _read_event(event: Mapping[str, Any], answer: Answer) -> bool:
    """Take one event in; say whether it brought a piece of the reply or of its thinking."""
    kind = event.get("type")
    if kind == "message_start":
        message = event.get("message") or {}
        answer.valid = True
        answer.model = message.get("model") or ""
        _read_usage(message.get("usage"), answer)
    elif kind == "message_delta":
        _end(event.get("delta") or {}, answer)
        _read_usage(event.get("usage"), answer)
    elif kind == "content_block_delta":
        delta = event.get("delta") or {}
        if delta.get("text"):
            answer.parts.append(delta["text"])
        return bool(delta.get("text") or delta.get("thinking"))
    return False


def _read_whole(body: Any, answer: Answer) -> None:
    """Take in an answer that came in one piece."""
    if not isinstance(body, dict) or not isinstance(body.get("content"), list):
        return
    answer.valid = True
    answer.model = body.get("model") or ""
    answer.parts += [part["text"] for part in body["content"] if part.get("text")]
    _end(body, answer)
    _read_usage(body.get("usage"), answer)


def _end(values: Mapping[str, Any], answer: Answer) -> None:
    reason = values.get("stop_reason")
    if reason:
        answer.finish = _ENDS.get(reason, str(reason))


def _read_usage(usage: Any, answer: Answer) -> None:
    """Take the counts in: here, what was cached is not among the tokens of the prompt."""
    if not isinstance(usage, dict):
        return
    answer.tokens_out = usage.get("output_tokens") or answer.tokens_out
    if usage.get("input_tokens") is None:
        return
    cached = usage.get("cache_read_input_tokens") or 0
    made = usage.get("cache_creation_input_tokens") or 0
    answer.cached = cached
    answer.tokens_in = usage["input_tokens"] + cached + made
