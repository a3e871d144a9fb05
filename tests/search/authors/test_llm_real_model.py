"""The model author against a real server with a real, very small model.

SmolLM2-135M writes nonsense: what is tested is that nonsense, schemas, limits and counts are handled.
"""

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from small_model import CONTEXT, MOMENT, REFERENCE, Knowledge, processor, start

from kb.errors import ModelError
from kb.records.schema import CATEGORIES
from search.attempt import Attempt, Draft, Idea
from search.authors.llm import LanguageModel
from search.outcome import BuildFailed
from search.settings import ModelSettings
from search.task import Task, TaskFile
from synth.models import Message, Reply, Request
from synth.models.anthropic import Anthropic
from synth.models.openai import OpenAI
from synth.models.recorded import Recorded
from synth.models.responses import Responses
from synth.replies.ideas import schema
from synth.replies.requests import with_requests

pytestmark = [
    # The package that carries the token ranks opens them in a deprecated way when it is imported.
    pytest.mark.filterwarnings("ignore:open_binary is deprecated:DeprecationWarning"),
    pytest.mark.slow,
]


# Tokens of a context: reading prompts is most of the time.
SMALL = 1100


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


class Exchanges(dict[str, tuple[Request, Reply]]):
    def get(self, key: str) -> Reply | None:  # type: ignore[override]
        return self[key][1] if key in self else None

    def put(self, key: str, request: Request, reply: Reply) -> None:
        self[key] = (request, reply)


def written_by(
    url: str, said: list[str], kept: Exchanges, context: int, reply: int
) -> LanguageModel:
    settings = ModelSettings(name="smollm2", context_tokens=context, reply_tokens=reply)
    task = Task(
        name="chain",
        path=Path("chain.py"),
        reference=Path("chain.py"),
        source=REFERENCE,
        settings=TaskFile(reference="chain.py", model=settings),
    )
    model = Recorded(OpenAI("smollm2", base_url=url, retries=0, say=said.append), kept)
    return LanguageModel(task, processor(), None, Knowledge(), model, said.append)


@pytest.mark.slow
def test_a_real_reply_carries_its_usage_and_is_the_same_again(url: str) -> None:
    model = OpenAI("smollm2", base_url=url)
    first, second = (model.reply(ask("Say hello.")) for _ in range(2))
    assert first.text == second.text != ""
    assert 0 < first.tokens_out <= 16
    assert first.tokens_in > 3
    assert first.finish in ("stop", "length")


@pytest.mark.slow
def test_a_real_endpoint_follows_the_schema_of_ideas(url: str) -> None:
    rules = schema(1)
    said: list[str] = []
    reply = OpenAI("smollm2", base_url=url, say=said.append).reply(
        ask("Give one idea for a faster softmax as JSON.", tokens=600, rules=rules)
    )
    assert said == []
    jsonschema.validate(json.loads(reply.text), json.loads(rules))


@pytest.mark.slow
def test_a_real_endpoint_follows_the_schema_of_requests_and_ideas(url: str) -> None:
    rules = with_requests(schema(1))
    said: list[str] = []
    reply = OpenAI("smollm2", base_url=url, say=said.append).reply(
        # Of what it was asked, this is answered shortest.
        ask("Reply with empty strings.", tokens=1500, rules=rules)
    )
    assert said == []
    jsonschema.validate(json.loads(reply.text), json.loads(rules))


def test_an_overlong_prompt_names_the_setting_to_lower(url: str) -> None:
    with pytest.raises(ModelError) as caught:
        OpenAI("smollm2", base_url=url).reply(ask("word " * 2 * CONTEXT))
    assert "does not fit the model's context" in str(caught.value)
    assert "lower model.context_tokens" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_ideas_of_a_real_model_are_valid_or_none_and_every_exchange_is_kept(url: str) -> None:
    said: list[str] = []
    kept = Exchanges()
    ideas = written_by(url, said, kept, SMALL, 200).ideas(MOMENT, 1)
    assert len(ideas) == 1 or said
    for idea in ideas:
        assert idea.category in CATEGORIES
        assert 3 <= len(idea.title) <= 90
        assert idea.exchanges[-1] in kept
    assert 1 <= len(kept) <= 2
    for request, reply in kept.values():
        # The tokenizer of the prompt's budget is not this model's: the margin must cover that.
        assert reply.tokens_in + request.max_tokens <= SMALL
        assert reply.tokens_out > 0


@pytest.mark.slow
def test_a_real_models_nonsense_is_no_draft_and_no_crash(url: str) -> None:
    said: list[str] = []
    kept = Exchanges()
    idea = Idea(title="Fuse", text="Fuse both steps into one loop.", category="memory access")
    draft = written_by(url, said, kept, SMALL, 64).draft(MOMENT, idea, 0, ())
    if draft is None:
        assert len(kept) == 2
        assert "no usable implementation 1 of 'Fuse'" in said[-1]
    else:
        assert "ModelNew" in draft.source
        assert draft.exchanges[-1] in kept


@pytest.mark.slow
@pytest.mark.parametrize("client", [Responses, Anthropic])
def test_the_other_protocols_speak_to_a_real_server_too(
    url: str, client: type[Responses | Anthropic]
) -> None:
    heard: list[int] = []
    base = url if client is Responses else url.removesuffix("/v1")
    model = client("smollm2", base_url=base, heard=lambda _, tokens: heard.append(tokens))
    reply = model.reply(ask("Say hello."))
    assert reply.text
    assert 0 < reply.tokens_out <= 16
    assert reply.tokens_in > 3
    assert reply.finish in ("stop", "length")
    assert heard
    assert heard == sorted(heard)


@pytest.mark.slow
def test_a_repair_by_a_real_model_is_a_draft_or_none(url: str) -> None:
    said: list[str] = []
    kept = Exchanges()
    failed = Attempt(
        number=0,
        parent=None,
        round=0,
        branch=0,
        idea=Idea(title="Fuse", text="Fuse both steps into one loop.", category="memory access"),
        draft=Draft(source="from torch import nn\n\n\nclass ModelNew(nn.Module):\n    pass\n"),
        outcome=BuildFailed(reason="expected ';'", detail="k.cpp:3: error: expected ';'"),
    )
    draft = written_by(url, said, kept, SMALL, 64).repair(
        replace(MOMENT, history=(failed,)), failed
    )
    assert 1 <= len(kept) <= 2
    assert draft is not None or "no usable repair of candidate 0" in said[-1]
