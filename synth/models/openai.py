"""Any endpoint that speaks OpenAI's chat protocol, through the official client.

Endpoints differ in what they accept: some refuse JSON schemas, some refuse a temperature or a seed,
some want `max_completion_tokens`. Where one refuses such a parameter by name, it is left out (or
asked for in words) from then on, and that is said once.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, ClassVar

import openai

from synth.models import Request
from synth.models.client.endpoint import Endpoint, counted, in_words
from synth.models.client.http import PartialAnswer


class OpenAI(Endpoint):
    """A chat model behind an OpenAI-compatible endpoint, whose address usually ends in ``/v1``."""

    sdk: ClassVar = openai
    client = openai.OpenAI
    url_variable = "OPENAI_BASE_URL"
    key_variables = ("KB_API_KEY", "OPENAI_API_KEY")

    def _send(self, client: openai.OpenAI, values: Mapping[str, Any]) -> Any:
        return client.chat.completions.with_raw_response.create(**values)

    def _begun(self, answer: PartialAnswer) -> bool:
        # A stream without choices is a whole answer that says nothing.
        return answer.pieces > 0

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

    def _read_event(self, event: Mapping[str, Any], answer: PartialAnswer) -> bool:
        """Take one event in; say whether it brought a piece of the reply or of its thinking."""
        choices = event.get("choices")
        if not isinstance(choices, list):
            return False
        answer.valid = True
        answer.model = event.get("model") or answer.model
        _read_usage(event.get("usage"), answer)
        if not choices:
            return False
        answer.finish = choices[0].get("finish_reason") or answer.finish
        return _read_message(choices[0].get("delta") or {}, answer)

    def _read_whole(self, body: Any, answer: PartialAnswer) -> None:
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


def _response_format(schema: str) -> dict[str, Any]:
    return {
        "type": "json_schema",
        "json_schema": {"name": "answer", "strict": True, "schema": json.loads(schema)},
    }


def _read_message(message: Mapping[str, Any], answer: PartialAnswer) -> bool:
    said = message.get("content") or message.get("refusal")
    if isinstance(said, list):  # some servers give parts, of which thinking is one
        said = "".join(text for part in said if isinstance(text := part.get("text"), str))
    if isinstance(said, str) and said:
        answer.parts.append(said)
    # Servers that part the thinking from the answer name it so; it is counted, not read.
    return bool(said or message.get("reasoning_content") or message.get("reasoning"))


def _read_usage(usage: Any, answer: PartialAnswer) -> None:
    if not isinstance(usage, dict):
        return
    answer.tokens_in = counted(usage.get("prompt_tokens"))
    answer.tokens_out = counted(usage.get("completion_tokens"))
    details = usage.get("prompt_tokens_details") or {}
    answer.cached = counted(details.get("cached_tokens"))
    cost = usage.get("cost")  # routers say what they took
    # No sum with what is no amount would ever reach a cap.
    if not isinstance(cost, int | float) or not math.isfinite(cost) or cost < 0:
        cost = None
    answer.cost = cost
