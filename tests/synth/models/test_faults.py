"""Three protocols against a server of our own that fails in every way that servers do."""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from kb.errors import ModelError
from synth.models import Message, Model, Reply, Request
from synth.models.anthropic import Anthropic
from synth.models.openai import OpenAI
from synth.models.recorded import Recorded
from synth.models.responses import Responses

SECRET = "sk-planted-secret-0123456789"
WORDS = ("Fuse ", "the ", "loops.")
CLIENTS: dict[str, Callable[..., Model]] = {
    "chat": OpenAI,
    "responses": Responses,
    "anthropic": Anthropic,
}
Step = Callable[["Wires"], None]


class Wires:
    """What one answer may do to a connection."""

    def __init__(self, handler: BaseHTTPRequestHandler, protocol: str) -> None:
        self.handler, self.protocol = handler, protocol

    def refuse(self, status: int, message: str, headers: dict[str, str], **more: str) -> None:
        data = json.dumps({"error": {"message": message, "type": "x", **more}}).encode()
        self.handler.send_response(status)
        for name, value in headers.items():
            self.handler.send_header(name, value)
        self.handler.send_header("Content-Type", "application/json")
        self.handler.send_header("Content-Length", str(len(data)))
        self.handler.end_headers()
        self.handler.wfile.write(data)

    def begin(self) -> None:
        self.handler.send_response(200)
        self.handler.send_header("Content-Type", "text/event-stream")
        self.handler.send_header("Connection", "close")
        self.handler.end_headers()
        if self.protocol == "anthropic":
            message = {"id": "1", "type": "message", "role": "assistant", "model": "tiny-1",
                       "content": [], "usage": {"input_tokens": 4, "output_tokens": 1,
                                                "cache_read_input_tokens": 3}}  # fmt: skip
            self.event({"type": "message_start", "message": message})

    def event(self, value: dict[str, Any]) -> None:
        name = f"event: {value['type']}\n" if "type" in value else ""
        self.handler.wfile.write(f"{name}data: {json.dumps(value)}\n\n".encode())
        self.handler.wfile.flush()

    def word(self, text: str) -> None:
        if self.protocol == "chat":
            self.event({"id": "1", "object": "chat.completion.chunk", "model": "tiny-1",
                        "created": 1, "choices": [{"index": 0, "delta": {"content": text},
                                                   "finish_reason": None}]})  # fmt: skip
        elif self.protocol == "responses":
            self.event({"type": "response.output_text.delta", "delta": text, "item_id": "1",
                        "output_index": 0, "content_index": 0, "sequence_number": 1})  # fmt: skip
        else:
            self.event({"type": "content_block_delta", "index": 0,
                        "delta": {"type": "text_delta", "text": text}})  # fmt: skip

    def end(self, reason: str = "") -> None:
        if self.protocol == "chat":
            chunk = {"id": "1", "object": "chat.completion.chunk", "model": "tiny-1", "created": 1}
            last = {"index": 0, "delta": {}, "finish_reason": reason or "stop"}
            self.event({**chunk, "choices": [last]})
            details = {"cached_tokens": 3}
            usage = {"prompt_tokens": 7, "completion_tokens": 5, "prompt_tokens_details": details}
            self.event({**chunk, "choices": [], "usage": {**usage, "total_tokens": 12}})
            self.handler.wfile.write(b"data: [DONE]\n\n")
        elif self.protocol == "responses":
            usage = {"input_tokens": 7, "output_tokens": 5,
                     "input_tokens_details": {"cached_tokens": 3}}  # fmt: skip
            body: dict[str, Any] = {"id": "1", "object": "response", "model": "tiny-1",
                                    "output": [], "usage": usage, "status": "completed"}  # fmt: skip
            if reason:
                body |= {"status": "incomplete", "incomplete_details": {"reason": reason}}
            self.event({"type": "response.completed", "response": body, "sequence_number": 2})
        else:
            reason = {"content_filter": "refusal"}.get(reason, reason) or "end_turn"
            self.event({"type": "message_delta", "delta": {"stop_reason": reason},
                        "usage": {"output_tokens": 5}})  # fmt: skip
            self.event({"type": "message_stop"})

    def answer(self, *words: str) -> None:
        self.begin()
        for word in words or WORDS:
            self.word(word)
        self.end()


class Server:
    """Does one step a request, the last one again and again; keeps what it was asked."""

    def __init__(self, protocol: str) -> None:
        self.protocol = protocol
        self.steps: list[Step] = [Wires.answer]
        self.bodies: list[dict[str, Any]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                server.bodies.append(json.loads(self.rfile.read(length)))
                step = server.steps[min(len(server.bodies), len(server.steps)) - 1]
                # The client goes away in some tests.
                with contextlib.suppress(OSError):
                    step(Wires(self, server.protocol))
                self.close_connection = True

            def log_message(self, *args: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        tail = "" if protocol == "anthropic" else "/v1"
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}{tail}"
        self.slept: list[float] = []
        self.said: list[str] = []
        self.heard: list[int] = []

    def model(self, **settings: Any) -> Model:
        return CLIENTS[self.protocol](
            "tiny",
            base_url=self.url,
            say=self.said.append,
            heard=lambda _, tokens: self.heard.append(tokens),
            sleep=self.slept.append,
            **settings,
        )


@pytest.fixture(params=list(CLIENTS))
def server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KB_API_KEY", SECRET)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    made = Server(request.param)
    thread = threading.Thread(target=made.http.serve_forever, args=(0.01,))
    thread.start()
    yield made
    made.http.shutdown()
    made.http.server_close()
    thread.join()
    assert SECRET not in "\n".join(made.said)


def ask(schema: str | None = None) -> Request:
    return Request(
        messages=(Message(role="system", content="be"), Message(role="user", content="hi")),
        max_tokens=50,
        temperature=0.3,
        seed=11,
        schema=schema,
        model="tiny",
    )


def failure(model: Model) -> ModelError:
    with pytest.raises(ModelError) as caught:
        model.reply(ask())
    assert "\n" not in str(caught.value)
    assert SECRET not in str(caught.value)
    return caught.value


def refusing(status: int, message: str, headers: dict[str, str] | None = None, **more: str) -> Step:
    return lambda wires: wires.refuse(status, message, headers or {}, **more)


def dropping(wires: Wires) -> None:
    wires.begin()
    wires.word("half an ")


def test_a_stream_is_put_together_and_counted_while_it_comes(server: Server) -> None:
    reply = server.model().reply(ask())
    assert (reply.text, reply.model, reply.finish) == ("Fuse the loops.", "tiny-1", "stop")
    assert (reply.tokens_in, reply.tokens_out, reply.cached, reply.lost) == (7, 5, 3, 0)
    assert server.heard == [1, 2, 3]
    assert server.bodies[0]["stream"] is True


def test_a_schema_goes_out_in_the_words_of_the_protocol(server: Server) -> None:
    server.model().reply(ask('{"type": "object"}'))
    body = server.bodies[0]
    sent = {
        "chat": lambda: body["response_format"]["json_schema"]["schema"],
        "responses": lambda: body["text"]["format"]["schema"],
        "anthropic": lambda: body["output_config"]["format"]["schema"],
    }[server.protocol]()
    assert sent == {"type": "object"}


def test_the_wait_that_a_server_asks_for_is_kept_and_told(server: Server) -> None:
    server.steps = [refusing(429, "slow down", {"retry-after": "7"}), Wires.answer]
    assert server.model().reply(ask()).text == "Fuse the loops."
    assert server.slept == [7.0]
    assert server.said == ["model tiny: it answered 429: asking again in 7.0 s (1 of 3)"]


def test_a_wait_longer_than_anyone_has_ends_the_run_at_once(server: Server) -> None:
    server.steps = [refusing(429, "come back tomorrow", {"retry-after": "3600"})]
    assert "wait 3600 s, or check the account's quota" in str(failure(server.model()))
    assert (len(server.bodies), server.slept) == (1, [])


def test_an_empty_account_is_not_asked_again(server: Server) -> None:
    server.steps = [refusing(429, "You exceeded your current quota")]
    assert "check the account's quota" in str(failure(server.model()))
    assert len(server.bodies) == 1


def test_faults_of_the_server_are_waited_out_longer_each_time(server: Server) -> None:
    server.steps = [refusing(500, "oops"), refusing(503, "busy"), refusing(529, "full"),
                    Wires.answer]  # fmt: skip
    assert server.model().reply(ask()).text == "Fuse the loops."
    first, second, third = server.slept
    assert 0.3 < first < 0.7 < second < 1.3 < third < 2.6


def test_faults_without_end_are_one_line(server: Server) -> None:
    server.steps = [refusing(500, "oops")]
    assert "it answered 500 (" in str(failure(server.model(retries=2)))
    assert len(server.bodies) == 3


def test_a_connection_that_drops_mid_answer_is_asked_again_and_what_was_lost_is_told(
    server: Server,
) -> None:
    server.steps = [dropping, dropping, Wires.answer]
    reply = server.model().reply(ask())
    assert reply.text == "Fuse the loops."
    assert reply.lost >= 2
    assert len(server.bodies) == 3
    assert "broke off after 1 tokens: asking again" in server.said[0]


def test_connections_that_always_drop_are_one_line_that_knows_what_was_paid(
    server: Server,
) -> None:
    server.steps = [dropping]
    error = failure(server.model(retries=1))
    assert "the answer broke off after 1 tokens, 2 times" in str(error)
    assert error.lost >= 2


def test_a_slow_drip_ends_when_the_user_said_so_and_is_not_begun_again(server: Server) -> None:
    stop = threading.Event()

    def drip(wires: Wires) -> None:
        wires.begin()
        while not stop.wait(0.02):
            wires.word("drop ")

    server.steps = [drip]
    error = failure(server.model(timeout_seconds=0.3))
    stop.set()
    assert "no answer within 0.3 s (" in str(error)
    assert "raise model.timeout_seconds" in str(error)
    assert error.lost > 1
    assert len(server.bodies) == 1


def overloaded(wires: Wires) -> None:
    wires.begin()
    wires.word("half an ")
    error = {"type": "overloaded_error", "message": "Overloaded"}
    wires.event({"type": "error", "error": error, "message": "Overloaded", "code": "overloaded"})


def test_an_answer_that_ends_in_an_error_is_asked_again_and_what_was_lost_is_told(
    server: Server,
) -> None:
    server.steps = [overloaded, Wires.answer]
    reply = server.model().reply(ask())
    assert (reply.text, len(server.bodies)) == ("Fuse the loops.", 2)
    assert reply.lost >= 1


def test_tokens_lost_before_a_refusal_are_told_with_it(server: Server) -> None:
    server.steps = [overloaded, refusing(401, "no")]
    assert failure(server.model()).lost >= 1
    server.steps = [overloaded]
    assert failure(server.model(retries=1)).lost >= 2


def test_two_requests_at_once_may_both_be_refused_the_same_parameter(server: Server) -> None:
    both = threading.Barrier(2, timeout=10)

    def refuse(wires: Wires) -> None:
        both.wait()
        wires.refuse(400, "temperature is not supported", {})

    server.steps = [refuse, refuse, Wires.answer]
    model = server.model()
    with ThreadPoolExecutor(2) as pool:
        texts = [one.text for one in pool.map(model.reply, [ask(), ask()])]
    assert texts == ["Fuse the loops."] * 2
    assert len(server.said) <= 2


def test_an_event_that_is_no_json_is_a_broken_answer(server: Server) -> None:
    def garble(wires: Wires) -> None:
        wires.begin()
        wires.word("half ")
        name = {"anthropic": b"event: content_block_delta\n"}.get(server.protocol, b"")
        wires.handler.wfile.write(name + b'data: {"choices": [{"del\n\n')

    server.steps = [garble, Wires.answer]
    assert server.model().reply(ask()).text == "Fuse the loops."
    assert len(server.bodies) == 2


def whole(body: object) -> Step:
    """Answer in one piece."""

    def step(wires: Wires) -> None:
        data = json.dumps(body).encode()
        wires.handler.send_response(200)
        wires.handler.send_header("Content-Type", "application/json")
        wires.handler.send_header("Content-Length", str(len(data)))
        wires.handler.end_headers()
        wires.handler.wfile.write(data)

    return step


@pytest.mark.parametrize("part", [None, "text", 3, [], {"message": "text"}, {"content": 3}])
def test_an_answer_of_another_form_is_one_line(server: Server, part: object) -> None:
    server.steps = [whole({"choices": [part], "content": [part], "output": [part]})]
    if part in ([], {"message": "text"}, {"content": 3}):
        with contextlib.suppress(ModelError):  # some protocols read it as an empty answer
            assert server.model(retries=0).reply(ask()).text == ""
    else:
        assert "another form" in str(failure(server.model(retries=0)))


@pytest.mark.parametrize("amount", [float("nan"), -5, "7", None, [1], float("inf")])
def test_what_is_no_count_and_no_cost_is_not_booked(server: Server, amount: object) -> None:
    usage = {
        "prompt_tokens": amount, "completion_tokens": amount, "cost": amount,
        "input_tokens": amount, "output_tokens": amount, "cache_read_input_tokens": amount,
    }  # fmt: skip
    text = {"type": "text", "text": "yes"}
    body = {
        "choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}],
        "content": [text],
        "output": [{"content": [{"type": "output_text", "text": "yes"}]}],
        "usage": usage,
    }
    server.steps = [whole(body)]
    reply = server.model().reply(ask())
    assert reply.text == "yes"
    assert (reply.tokens_in, reply.tokens_out, reply.cached, reply.cost) == (0, 0, 0, None)


def test_an_answer_in_parts_is_read_without_its_thinking(server: Server) -> None:
    if server.protocol != "chat":
        pytest.skip("the other protocols have parts of their own")
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "Fuse "},
        {"type": "text", "text": "it."},
    ]
    server.steps = [whole({"choices": [{"message": {"content": parts}, "finish_reason": "stop"}]})]
    assert server.model().reply(ask()).text == "Fuse it."


def test_an_answer_without_anything_in_it_is_empty_and_paid_for_once(server: Server) -> None:
    def nothing(wires: Wires) -> None:
        wires.begin()
        wires.end()

    server.steps = [nothing]
    reply = server.model().reply(ask())
    assert (reply.text, reply.tokens_in) == ("", 7)
    assert len(server.bodies) == 1


def test_a_filtered_answer_is_a_reply_that_says_so(server: Server) -> None:
    def filtered(wires: Wires) -> None:
        wires.begin()
        wires.word("I ")
        wires.end("content_filter")

    server.steps = [filtered]
    assert server.model().reply(ask()).finish == "content_filter"
    assert len(server.bodies) == 1


def test_a_filtered_prompt_is_a_reply_too(server: Server) -> None:
    server.steps = [refusing(400, "the prompt was filtered", code="content_filter")]
    reply = server.model().reply(ask())
    assert (reply.text, reply.finish, reply.tokens_out) == ("", "content_filter", 0)


@pytest.mark.parametrize(
    ("status", "told"), [(404, "check model.name"), (401, "set KB_API_KEY"), (403, "key was")]
)
def test_a_wrong_name_and_a_bad_key_are_told_at_once(
    server: Server, status: int, told: str
) -> None:
    server.steps = [refusing(status, f"no such thing for {SECRET}")]
    assert told in str(failure(server.model()))
    assert len(server.bodies) == 1


def test_a_server_that_repeats_the_key_puts_it_into_no_reply(server: Server) -> None:
    server.steps = [lambda wires: wires.answer("your key is ", SECRET, "!")]
    assert server.model().reply(ask()).text == "your key is ***!"


def test_what_was_answered_is_not_paid_for_again(server: Server) -> None:
    class Kept(dict[str, Reply]):
        def put(self, key: str, request: Request, reply: Reply) -> None:
            self[key] = reply

    server.steps = [dropping, Wires.answer]
    kept = Kept()
    first = Recorded(server.model(), kept).reply(ask())
    assert Recorded(server.model(), kept).reply(ask()) == first
    assert len(server.bodies) == 2  # the broken one and the whole one
