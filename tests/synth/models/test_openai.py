"""Against an endpoint of our own that speaks HTTP; test_local_server.py asks a real model."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from kb.errors import ConfigError, ModelError
from synth.models import Message, Request
from synth.models.openai import OpenAI

SECRET = "sk-very-secret"
ANSWER = {
    "id": "1",
    "object": "chat.completion",
    "created": 1,
    "model": "tiny-1",
    "choices": [
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hello"}}
    ],
    "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
}
Responder = Callable[[dict[str, Any]], tuple[int, Any]]


class Endpoint:
    """A chat endpoint whose answers a test chooses; it keeps what it was sent."""

    def __init__(self) -> None:
        self.respond: Responder = lambda body: (200, ANSWER)
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                endpoint.bodies.append(body)
                endpoint.keys.append(self.headers["Authorization"])
                status, value = endpoint.respond(body)
                data = value.encode() if isinstance(value, str) else json.dumps(value).encode()
                self.send_response(status)
                html = isinstance(value, str) and value.startswith("<")
                self.send_header("Content-Type", "text/html" if html else "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.send_header("retry-after-ms", "1")
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KB_API_KEY", SECRET)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    made = Endpoint()
    thread = threading.Thread(target=made.server.serve_forever, args=(0.01,))
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()


def request(schema: str | None = None) -> Request:
    return Request(
        messages=(Message(role="system", content="be"), Message(role="user", content="hi")),
        max_tokens=50,
        temperature=0.3,
        seed=11,
        schema=schema,
    )


def refusal(status: int, message: str, **more: str) -> Responder:
    return lambda body: (status, {"error": {"message": message, **more}})


def failure(model: OpenAI, schema: str | None = None) -> str:
    with pytest.raises(ModelError) as caught:
        model.reply(request(schema))
    text = str(caught.value)
    assert "\n" not in text
    assert SECRET not in text
    return text


def test_a_reply_carries_text_usage_and_seconds(endpoint: Endpoint) -> None:
    reply = OpenAI("tiny", base_url=endpoint.url).reply(request())
    assert (reply.text, reply.model, reply.finish) == ("hello", "tiny-1", "stop")
    assert (reply.tokens_in, reply.tokens_out) == (7, 3)
    assert 0 < reply.seconds < 60
    (body,) = endpoint.bodies
    assert body == {
        "model": "tiny",
        "messages": [{"role": "system", "content": "be"}, {"role": "user", "content": "hi"}],
        "max_tokens": 50,
        "temperature": 0.3,
        "seed": 11,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_a_schema_is_sent_as_a_response_format(endpoint: Endpoint) -> None:
    OpenAI("tiny", base_url=endpoint.url).reply(request('{"type": "object"}'))
    assert endpoint.bodies[0]["response_format"]["type"] == "json_schema"
    assert endpoint.bodies[0]["response_format"]["json_schema"]["schema"] == {"type": "object"}


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "Invalid parameter: 'response_format' of type 'json_schema' is not supported"),
        (422, "response_format.type: Input should be 'text' or 'json_object'"),
        (500, "failed to parse grammar"),
    ],
)
def test_an_endpoint_without_schemas_is_asked_in_words_and_that_is_said_once(
    endpoint: Endpoint, status: int, message: str
) -> None:
    endpoint.respond = lambda body: (
        (status, {"error": {"message": message}}) if "response_format" in body else (200, ANSWER)
    )
    said: list[str] = []
    model = OpenAI("tiny", base_url=endpoint.url, retries=0, say=said.append)
    for _ in range(3):
        assert model.reply(request('{"type": "object"}')).text == "hello"
    assert len(endpoint.bodies) == 4
    assert len(said) == 1
    assert "asking for JSON in the prompt" in said[0]
    last = endpoint.bodies[-1]["messages"][-1]["content"]
    assert last.startswith("hi\n")
    assert '{"type": "object"}' in last
    model.reply(request())
    assert endpoint.bodies[-1]["messages"][-1]["content"] == "hi"


def test_parameters_that_an_endpoint_refuses_are_given_up_one_by_one(endpoint: Endpoint) -> None:
    def respond(body: dict[str, Any]) -> tuple[int, Any]:
        for name in ("max_tokens", "temperature", "seed"):
            if name in body:
                return 400, {"error": {"message": f"Unsupported parameter: '{name}'"}}
        return 200, ANSWER

    endpoint.respond = respond
    said: list[str] = []
    assert OpenAI("o9", base_url=endpoint.url, say=said.append).reply(request()).text == "hello"
    assert endpoint.bodies[-1]["max_completion_tokens"] == 50
    assert len(said) == 3


def test_an_endpoint_that_refuses_everything_is_not_asked_for_ever(endpoint: Endpoint) -> None:
    endpoint.respond = refusal(400, "max_tokens, temperature, seed and response_format are wrong")
    assert "it answered 400" in failure(OpenAI("x", base_url=endpoint.url), '{"type": "object"}')
    assert len(endpoint.bodies) == 5


def test_a_refused_key_says_which_variable_to_set_and_repeats_no_part_of_it(
    endpoint: Endpoint,
) -> None:
    endpoint.respond = refusal(401, f"Incorrect API key provided: {SECRET}")
    text = failure(OpenAI("tiny", base_url=endpoint.url))
    assert "key was refused (401): set KB_API_KEY" in text


def test_no_other_error_repeats_the_key(endpoint: Endpoint) -> None:
    endpoint.respond = refusal(400, f"odd request with {SECRET}")
    assert "***" in failure(OpenAI("tiny", base_url=endpoint.url))


def test_an_unknown_model_says_what_to_check(endpoint: Endpoint) -> None:
    endpoint.respond = refusal(404, "The model 'tiny' does not exist")
    text = failure(OpenAI("tiny", base_url=endpoint.url))
    assert "check model.name" in text
    assert "/v1" in text


def test_too_many_requests_are_repeated_and_then_reported(endpoint: Endpoint) -> None:
    endpoint.respond = refusal(429, "slow down")
    text = failure(OpenAI("tiny", base_url=endpoint.url, retries=2))
    assert "after 2 retries (429, " in text
    assert len(endpoint.bodies) == 3


def test_a_passing_fault_is_survived(endpoint: Endpoint) -> None:
    endpoint.respond = lambda body: (
        (503, {"error": {"message": "busy"}}) if len(endpoint.bodies) < 2 else (200, ANSWER)
    )
    assert OpenAI("tiny", base_url=endpoint.url, retries=2).reply(request()).text == "hello"


@pytest.mark.parametrize(
    "error",
    [
        {"message": "This model's maximum context length is 8192 tokens, max_tokens is 50",
         "code": "context_length_exceeded"},
        {"message": "request (9031 tokens) exceeds the available context size (4096 tokens)",
         "type": "exceed_context_size_error"},
    ],
)  # fmt: skip
def test_an_overlong_prompt_names_the_setting_to_lower(
    endpoint: Endpoint, error: dict[str, str]
) -> None:
    endpoint.respond = lambda body: (400, {"error": error})
    assert "lower model.context_tokens" in failure(OpenAI("tiny", base_url=endpoint.url))
    assert len(endpoint.bodies) == 1


def test_a_slow_endpoint_names_the_setting_to_raise(endpoint: Endpoint) -> None:
    waiting = threading.Event()

    def respond(body: dict[str, Any]) -> tuple[int, Any]:
        waiting.wait(5)
        return 200, ANSWER

    endpoint.respond = respond
    model = OpenAI("tiny", base_url=endpoint.url, timeout_seconds=0.1, retries=0)
    text = failure(model)
    waiting.set()
    assert "no answer within 0.1 s: raise model.timeout_seconds" in text


def test_a_refused_connection_is_one_line(endpoint: Endpoint) -> None:
    url = endpoint.url.replace(str(endpoint.server.server_address[1]), "1")
    text = failure(OpenAI("tiny", base_url=url, retries=0))
    assert f"model 'tiny' at {url}: cannot connect" in text
    assert "model.base_url right?" in text


@pytest.mark.parametrize("answer", ["<html>welcome</html>", {"hello": "world"}, "not json"])
def test_what_is_no_chat_endpoint_is_told_from_one(endpoint: Endpoint, answer: Any) -> None:
    endpoint.respond = lambda body: (200, answer)
    assert "usually ends in /v1" in failure(OpenAI("tiny", base_url=endpoint.url, retries=0))


def test_an_answer_without_choices_is_empty_and_no_error(endpoint: Endpoint) -> None:
    endpoint.respond = lambda body: (200, {**ANSWER, "choices": []})
    reply = OpenAI("tiny", base_url=endpoint.url, retries=0).reply(request())
    assert (reply.text, reply.finish, reply.tokens_in) == ("", "empty", 7)
    assert len(endpoint.bodies) == 1


def test_a_reply_without_text_or_usage_is_still_a_reply(endpoint: Endpoint) -> None:
    choice = {"index": 0, "finish_reason": None, "message": {"role": "assistant", "content": None}}
    endpoint.respond = lambda body: (200, {**ANSWER, "usage": None, "choices": [choice]})
    reply = OpenAI("tiny", base_url=endpoint.url).reply(request())
    assert (reply.text, reply.tokens_in, reply.tokens_out, reply.finish) == ("", 0, 0, "stop")


def test_the_key_comes_from_the_first_variable_that_is_set(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "other")
    OpenAI("tiny", base_url=endpoint.url).reply(request())
    monkeypatch.delenv("KB_API_KEY")
    OpenAI("tiny", base_url=endpoint.url).reply(request())
    assert endpoint.keys == [f"Bearer {SECRET}", "Bearer other"]


def test_an_endpoint_without_keys_needs_none(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KB_API_KEY")
    assert OpenAI("tiny", base_url=endpoint.url).reply(request()).text == "hello"


def test_the_default_endpoint_without_a_key_says_what_to_set(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KB_API_KEY")
    text = failure(OpenAI("gpt-9"))
    assert "KB_API_KEY or OPENAI_API_KEY, found none" in text


def test_an_address_without_a_scheme_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(ConfigError, match="begins with http:// or https://, found 'localhost:80'"):
        OpenAI("tiny", base_url="localhost:80")


def test_neither_the_object_nor_its_request_shows_the_key(endpoint: Endpoint) -> None:
    model = OpenAI("tiny", base_url=endpoint.url)
    model.reply(request())
    assert SECRET not in repr(vars(model))
    assert SECRET not in request().to_json()


def test_a_key_with_a_line_break_at_its_end_is_used_without_it(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KB_API_KEY", SECRET + "\n")
    OpenAI("tiny", base_url=endpoint.url).reply(request())
    assert endpoint.keys == [f"Bearer {SECRET}"]


@pytest.mark.parametrize("key", ["sk-ключ", "sk-a\tb-very-long"])
def test_a_key_that_no_header_can_carry_is_one_line(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("KB_API_KEY", key)
    text = failure(OpenAI("tiny", base_url=endpoint.url))
    assert text.startswith("KB_API_KEY: expected a key of printable ASCII")
    assert key not in text
