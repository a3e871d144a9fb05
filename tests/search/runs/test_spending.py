import json
from pathlib import Path
from typing import Any

import pytest

from kb.config import Home
from kb.database import open_engine
from kb.errors import ModelError, TaskError
from search.runs.spending import Ledger, spending
from search.runs.storage import Storage
from search.settings import StopSettings
from search.task import TaskFile, load_task, override
from synth.models import Message, Reply, Request
from synth.models.budgeted import BudgetedModel, Exhausted
from synth.models.prices import Usage
from synth.models.recorded import Recorded


def ask(number: int, tokens: int = 100) -> Request:
    text = Message(role="user", content=f"question {number} " + "x" * 282)
    return Request(messages=(text,), max_tokens=tokens, temperature=0.0, seed=number, model="m")


class Counting:
    """Answers, and counts how often it was paid."""

    name = "m"

    def __init__(self, **reply: Any) -> None:
        self.asked = 0
        self.values = {"tokens_in": 80, "tokens_out": 20, **reply}

    def reply(self, request: Request) -> Reply:
        self.asked += 1
        return Reply(text="yes", model="m", seconds=0.5, finish="stop", **self.values)


class Falls:
    name = "m"

    def reply(self, request: Request) -> Reply:
        error = ModelError("broke off")
        error.lost = 30
        raise error


def price(usage: Usage) -> float | None:
    return usage.tokens_in * 1e-4 + usage.tokens_out * 1e-3


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(open_engine(Home(tmp_path)))


def opened(storage: Storage, run: str = "r-1", **caps: Any) -> Ledger:
    return Ledger(storage.engine, StopSettings.model_validate(caps)).open(run)


def wrapped(model: Any, ledger: Ledger, storage: Storage) -> Recorded:
    return Recorded(BudgetedModel(model, ledger, price), storage, noted=ledger.noted("code"))


def test_every_call_is_booked_with_tokens_cost_and_seconds(storage: Storage) -> None:
    model = wrapped(Counting(lost=5), opened(storage), storage)
    for number in range(2):
        assert model.reply(ask(number)).cost == pytest.approx(0.028)
    lost, row = spending(storage.engine, "r-1")
    assert (row["model"], row["role"], row["calls"]) == ("m", "code", 2)
    assert (row["tokens_in"], row["tokens_out"], row["seconds"]) == (160, 40, 1.0)
    assert row["cost"] == pytest.approx(0.056)
    assert (lost["role"], lost["calls"], lost["tokens_out"]) == ("broken off", 2, 10)


@pytest.mark.parametrize(
    ("caps", "asked"), [({"requests": 3}, 3), ({"tokens": 420}, 3), ({"money": 0.2}, 4)]
)
def test_a_cap_ends_a_run_before_the_request_that_might_break_it(
    storage: Storage, caps: dict[str, Any], asked: int
) -> None:
    inner = Counting()
    model = wrapped(inner, opened(storage, **caps), storage)
    for number in range(asked):
        model.reply(ask(number))
    with pytest.raises(Exhausted) as caught:
        model.reply(ask(asked))
    assert inner.asked == asked
    (name,) = caps
    assert str(caught.value).startswith(f"stop.{name} ")
    assert "and the next request may take" in str(caught.value)


def test_a_resumed_run_goes_on_with_what_it_had_spent(storage: Storage) -> None:
    first = wrapped(Counting(), opened(storage, requests=3), storage)
    first.reply(ask(0))
    first.reply(ask(1))
    inner = Counting()
    again = wrapped(inner, opened(storage, requests=3), storage)
    again.reply(ask(1))  # in the record: free, and booked already
    again.reply(ask(2))
    with pytest.raises(Exhausted):
        again.reply(ask(3))
    assert inner.asked == 1
    (row,) = spending(storage.engine, "r-1")
    assert row["calls"] == 3


def test_another_run_answers_from_the_record_and_pays_nothing(storage: Storage) -> None:
    wrapped(Counting(), opened(storage), storage).reply(ask(0))
    inner = Counting()
    other = opened(storage, "r-2", money=0.001)
    assert wrapped(inner, other, storage).reply(ask(0)).text == "yes"
    assert inner.asked == 0
    (row,) = spending(storage.engine, "r-2")
    assert (row["paid"], row["calls"]) == (False, 1)


def test_tokens_of_answers_that_broke_off_are_spent(storage: Storage) -> None:
    ledger = opened(storage, tokens=350)
    with pytest.raises(ModelError, match="broke off"):
        wrapped(Falls(), ledger, storage).reply(ask(0))
    (row,) = spending(storage.engine, "r-1")
    assert (row["role"], row["tokens_out"]) == ("broken off", 30)
    assert row["tokens_in"] > 50
    wrapped(Counting(), ledger, storage).reply(ask(1))
    with pytest.raises(Exhausted):
        wrapped(Counting(), ledger, storage).reply(ask(2))


def test_counts_that_an_endpoint_does_not_give_are_estimated(storage: Storage) -> None:
    silent = Counting(tokens_in=0, tokens_out=0)
    reply = wrapped(silent, opened(storage), storage).reply(ask(0))
    assert (reply.tokens_in, reply.tokens_out) == (73, 1)


def test_what_an_endpoint_says_that_it_took_is_the_cost(storage: Storage) -> None:
    reply = wrapped(Counting(cost=0.5), opened(storage), storage).reply(ask(0))
    assert reply.cost == 0.5


def test_choices_outlive_the_process(storage: Storage) -> None:
    opened(storage).choose("code/0/1/0", "m")
    assert opened(storage).chosen("code/0/1/0") == "m"
    assert opened(storage, "r-2").chosen("code/0/1/0") is None


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ({"name": "m", "key": "sk-planted-secret"}, "the name of an environment variable"),
        ({"name": "m", "base_url": "https://u:sk-planted-secret@h/v1"}, "without credentials"),
        ({"name": "m", "base_url": "https://h/v1?key=sk-planted-secret"}, "without credentials"),
        ({"name": "m", "api_key": "sk-planted-secret"}, "unknown key 'model.api_key'"),
    ],
)
def test_a_key_in_a_task_file_is_refused_and_not_repeated(
    tmp_path: Path, model: dict[str, str], told: str
) -> None:
    path = tmp_path / "task.yaml"
    path.write_text(json.dumps({"reference": "r.py", "model": model}))
    with pytest.raises(TaskError) as caught:
        load_task(path)
    assert told in str(caught.value)
    assert "planted" not in str(caught.value)


def test_models_by_role_survive_the_record_and_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "r.py").write_text("")
    path = tmp_path / "task.yaml"
    path.write_text(
        "reference: r.py\nmodels: {ideas: {name: a}, code: [{name: b, weight: 2}, {name: c}]}\n"
    )
    settings = load_task(path).settings
    assert settings.models is not None
    assert [one.name for one in settings.models.code or ()] == ["b", "c"]
    assert TaskFile.model_validate(settings.model_dump(mode="json")) == settings
    assert override(load_task(path), rounds=settings.search.rounds).settings == settings


@pytest.mark.parametrize("models", ["{code: x}", "{code: []}", "{ideas: [{name: a}, {name: a}]}"])
def test_what_is_no_model_is_one_line(tmp_path: Path, models: str) -> None:
    path = tmp_path / "task.yaml"
    path.write_text(f"reference: r.py\nmodels: {models}\n")
    with pytest.raises(TaskError, match=r"key 'models\.(code|ideas)': expected"):
        load_task(path)
