"""`kb worker --prompts` as a process, with a model behind an endpoint of our own that speaks HTTP."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from kb.database import open_url
from search.work.prompts import PromptQueue, QueuedModel
from synth.models import Message, Request

SECRET = "sk-very-secret"


class Echo(BaseHTTPRequestHandler):
    keys: list[str | None]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.keys.append(self.headers["Authorization"])
        text = f"{body['model']} was asked {body['messages'][-1]['content']}"
        choice = {
            "index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}
        }  # fmt: skip
        usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
        answer = {"id": "1", "object": "chat.completion", "created": 1, "model": body["model"]}
        data = json.dumps({**answer, "choices": [choice], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: object) -> None: ...


@pytest.fixture
def endpoint() -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    server.keys = []
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.slow
def test_a_worker_answers_the_prompts_of_its_database_with_its_own_key(bare_shell, endpoint):
    file = bare_shell.folder / "shared.sqlite"
    queue = PromptQueue(open_url(f"sqlite:///{file}", "--database"))
    asked = [
        Request(
            messages=(Message(role="user", content=f"question {number}"),),
            max_tokens=50, temperature=0.0, seed=number, model="small",
        )
        for number in range(2)
    ]  # fmt: skip
    for one in asked:
        queue.put(one)
    address = f"http://127.0.0.1:{endpoint.server_address[1]}/v1"
    bare_shell.env |= {"KB_MODEL": "small", "KB_BASE_URL": address, "KB_API_KEY": SECRET}
    bare_shell.env["NO_PROXY"] = "127.0.0.1"
    command = ("worker", "--prompts", "--database", f"sqlite:///{file}", "--once", "--json")
    done = bare_shell(*command)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"end": "done", "kinds": {"answered": 2}}
    model = QueuedModel(queue, "small", say=print)
    for number, one in enumerate(asked):
        assert model.reply(one).text == f"small was asked question {number}"
        assert model.reply(one).tokens_in == 7
    assert endpoint.keys == [f"Bearer {SECRET}"] * 2
    queue.engine.dispose()
    assert SECRET.encode() not in file.read_bytes()


@pytest.mark.slow
def test_a_worker_for_prompts_without_a_model_is_one_line(bare_shell):
    done = bare_shell("worker", "--prompts", "--once")
    assert done.returncode == 2
    assert "--prompts: expected a model, found none: set KB_MODEL" in done.stderr
