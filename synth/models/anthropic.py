"""Anthropic's messages, through the official client."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar

import anthropic

from synth.models import Request
from synth.models.client.endpoint import Endpoint, counted, in_words
from synth.models.client.http import PartialAnswer

# What this protocol calls the reasons for which an answer ended.
_ENDS = {"end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length",
         "refusal": "content_filter"}  # fmt: skip


class Anthropic(Endpoint):
    """A model behind Anthropic's messages endpoint, or one that speaks its protocol.

    The protocol knows no seed: replies differ from run to run, and the record alone repeats them.
    Its `base_url` has no ``/v1`` at its end.
    """

    sdk: ClassVar = anthropic
    client = anthropic.Anthropic
    url_variable = "ANTHROPIC_BASE_URL"
    key_variables = ("ANTHROPIC_API_KEY", "KB_API_KEY")

    def _send(self, client: anthropic.Anthropic, values: Mapping[str, Any]) -> Any:
        return client.messages.with_raw_response.create(**values)

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

    def _read_event(self, event: Mapping[str, Any], answer: PartialAnswer) -> bool:
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
                answer.parts.append(str(delta["text"]))
            return bool(delta.get("text") or delta.get("thinking"))
        return False

    def _read_whole(self, body: Any, answer: PartialAnswer) -> None:
        """Take in an answer that came in one piece."""
        if not isinstance(body, dict) or not isinstance(body.get("content"), list):
            return
        answer.valid = True
        answer.model = body.get("model") or ""
        answer.parts += [str(part["text"]) for part in body["content"] if part.get("text")]
        _end(body, answer)
        _read_usage(body.get("usage"), answer)


def _end(values: Mapping[str, Any], answer: PartialAnswer) -> None:
    reason = values.get("stop_reason")
    if reason:
        answer.finish = _ENDS.get(reason, str(reason))


def _read_usage(usage: Any, answer: PartialAnswer) -> None:
    """Take the counts in: here, what was cached is not among the tokens of the prompt."""
    if not isinstance(usage, dict):
        return
    answer.tokens_out = counted(usage.get("output_tokens")) or answer.tokens_out
    if usage.get("input_tokens") is None:
        return
    answer.cached = counted(usage.get("cache_read_input_tokens"))
    made = counted(usage.get("cache_creation_input_tokens"))
    answer.tokens_in = counted(usage["input_tokens"]) + answer.cached + made
