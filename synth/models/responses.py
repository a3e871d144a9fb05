"""OpenAI's responses, through the official client: the protocol of its newer models."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar

import openai

from synth.models import Request
from synth.models.client.endpoint import Endpoint, counted, in_words
from synth.models.client.http import Broken, PartialAnswer
from synth.models.openai import OpenAI


class Responses(Endpoint):
    """A model behind an endpoint for responses, reached as `OpenAI` is.

    The protocol knows no seed. Nothing is stored at the endpoint (``store: false``).
    """

    sdk: ClassVar = openai
    client = openai.OpenAI
    url_variable = OpenAI.url_variable
    key_variables = OpenAI.key_variables

    def _send(self, client: openai.OpenAI, values: Mapping[str, Any]) -> Any:
        return client.responses.with_raw_response.create(**values)

    def _arguments(self, request: Request) -> dict[str, Any]:
        refused = self._wire.refused
        turns = [{"role": turn.role, "content": turn.content} for turn in request.messages]
        values: dict[str, Any] = {
            "model": self.name,
            "input": turns,
            "max_output_tokens": request.max_tokens,
            "store": False,
            "stream": True,
        }
        if "temperature" not in refused:
            values["temperature"] = request.temperature
        if request.schema is None:
            return values
        if "response_format" in refused:
            turns[-1] = {**turns[-1], "content": in_words(request)}
        else:
            form = {"type": "json_schema", "name": "answer", "strict": True,
                    "schema": json.loads(request.schema)}  # fmt: skip
            values["text"] = {"format": form}
        return values

    def _read_event(self, event: Mapping[str, Any], answer: PartialAnswer) -> bool:
        """Take one event in; say whether it brought a piece of the reply or of its thinking."""
        kind = str(event.get("type"))
        if not kind.startswith("response."):
            return False
        answer.valid = True
        if kind in ("response.completed", "response.incomplete", "response.failed"):
            _end(event.get("response") or {}, answer)
            return False
        if kind in ("response.output_text.delta", "response.refusal.delta"):
            answer.parts.append(str(event.get("delta") or ""))
            return True
        return kind.endswith(".delta")

    def _read_whole(self, body: Any, answer: PartialAnswer) -> None:
        """Take in an answer that came in one piece."""
        if not isinstance(body, dict) or not isinstance(body.get("output"), list):
            return
        answer.valid = True
        for item in body["output"]:
            for part in item.get("content") or ():
                if part.get("type") in ("output_text", "refusal"):
                    answer.parts.append(str(part.get("text") or part.get("refusal") or ""))
        _end(body, answer)


def _end(body: Mapping[str, Any], answer: PartialAnswer) -> None:
    """Take in how an answer ended and what it counted.

    Raises:
        Broken: the endpoint gave up on it.
    """
    if body.get("status") == "failed":
        answer.problem = str((body.get("error") or {}).get("message") or "no reason given")
        raise Broken("failed")
    answer.model = body.get("model") or answer.model
    reason = str((body.get("incomplete_details") or {}).get("reason") or "stop")
    answer.finish = {"max_output_tokens": "length"}.get(reason, reason)
    usage = body.get("usage") or {}
    answer.tokens_in = counted(usage.get("input_tokens"))
    answer.tokens_out = counted(usage.get("output_tokens"))
    answer.cached = counted((usage.get("input_tokens_details") or {}).get("cached_tokens"))
