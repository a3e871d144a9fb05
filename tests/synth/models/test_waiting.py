from __future__ import annotations

import threading

import pytest

from kb.errors import ModelError
from synth.models import Message, Reply, Request
from synth.models.budgeted import BudgetedModel, Hold
from synth.models.mailbox.model import Mailbox
from synth.models.recorded import Recorded
from synth.models.scripted import Scripted
from synth.models.threaded import Threaded
from synth.models.waiting import ask, finish

FENCED = "```python\nclass ModelNew:\n    pass\n```\n"


class Purse:
    """What is put aside at a time."""

    def __init__(self) -> None:
        self.tokens = 0

    def reserve(self, hold: Hold) -> None:
        self.tokens += hold.tokens

    def release(self, hold: Hold, *, answered: bool) -> None:
        self.tokens -= hold.tokens

    def lose(self, model, usage, cost) -> None:
        raise AssertionError("nothing was lost")


class Shelf:
    def __init__(self) -> None:
        self.kept: dict[str, Reply] = {}

    def get(self, key: str) -> Reply | None:
        return self.kept.get(key)

    def put(self, key: str, request: Request, reply: Reply) -> None:
        self.kept[key] = reply


def request(text: str = "Write it.") -> Request:
    return Request(
        messages=(Message(role="user", content=text),), max_tokens=90, temperature=0.0, seed=1
    )


def test_a_model_that_answers_at_once_is_never_waited_for() -> None:
    with pytest.raises(StopIteration) as end:
        next(ask(Scripted(["done"]), request()))
    assert end.value.value.text == "done"
    assert finish(ask(Recorded(Scripted(["done"]), Shelf()), request())).text == "done"
    with pytest.raises(ModelError):
        finish(ask(Scripted([]), request()))


def test_a_letter_waits_through_the_record_and_the_caps_and_its_answer_is_kept(tmp_path) -> None:
    purse, shelf = Purse(), Shelf()
    model = Recorded(BudgetedModel(Mailbox(tmp_path), purse, lambda _: 0.0), shelf)
    waiting = ask(model, request())
    next(waiting)
    assert purse.tokens > 90, "what a letter may take is put aside while it is out"
    (letter,) = tmp_path.glob("*-source-*.json")
    letter.with_suffix(".reply.md").write_text(FENCED)
    assert finish(waiting, 0.01).text == FENCED
    assert purse.tokens == 0
    assert [reply.text for reply in shelf.kept.values()] == [FENCED]


def test_who_stops_waiting_gives_back_what_was_put_aside(tmp_path) -> None:
    purse = Purse()
    box = Mailbox(tmp_path)
    waiting = ask(BudgetedModel(box, purse, lambda _: 0.0), request())
    next(waiting)
    assert box.waiting
    waiting.close()
    assert (purse.tokens, box.waiting) == (0, ())
    assert list(tmp_path.glob("*-source-*.md"))


def test_requests_in_threads_are_under_way_together_and_answered_each_by_its_own():
    both = threading.Barrier(2)

    class Slow:
        name = "slow"

        def reply(self, request: Request) -> Reply:
            both.wait(30)
            text = f"answer {request.seed}"
            return Reply(
                text=text, model="slow", tokens_in=1, tokens_out=1, seconds=0.0, finish="stop"
            )

    model = Threaded(Slow(), concurrency=2)
    requests = [Request(messages=(), max_tokens=1, temperature=0, seed=seed) for seed in (1, 2)]
    waits = [model.ask(request) for request in requests]
    answers: dict[int, str] = {}
    while len(answers) < 2:
        for place, waiting in enumerate(waits):
            try:
                next(waiting)
            except StopIteration as end:
                if end.value is not None:
                    answers[place] = end.value.text
    assert answers == {0: "answer 1", 1: "answer 2"}
