from __future__ import annotations

import pytest

from kb.tokens import count_tokens
from synth.models import Message, Request
from synth.models.budgeted import BudgetedModel, Hold
from synth.models.prices import Usage
from synth.models.scripted import Scripted


class Held:
    """A till that remembers what was put aside."""

    def __init__(self) -> None:
        self.holds: list[Hold] = []

    def reserve(self, hold: Hold) -> None:
        self.holds.append(hold)

    def release(self, hold: Hold, *, answered: bool) -> None:
        pass

    def lose(self, model: str, usage: Usage, cost: float | None) -> None:
        pass


@pytest.mark.parametrize(
    "text",
    [
        "for (int64_t i = 0; i < n; ++i) { y[i] = (a[i] + b[i]) * c[i]; }\n" * 40,
        "static const float t[] = {0.1234567f, 9.8765432f, -3.14159f, 2.71828f};\n" * 40,
        "0xdeadbeef, 0x1f3a9c, " * 40,
        "\u5185\u6838\u4f18\u5316\u9700\u8981\u51cf\u5c11\u5185\u5b58\u8bbf\u95ee\u6b21\u6570" * 40,
        "Plain prose, which has four characters and more in each of its tokens. " * 40,
    ],
)
@pytest.mark.parametrize("encoding", ["cl100k_base", "o200k_base"])
def test_what_is_put_aside_for_a_request_is_enough_for_its_prompt(text: str, encoding: str) -> None:
    held = Held()
    turns = (Message(role="user", content=text),)
    request = Request(messages=turns, max_tokens=100, temperature=0, seed=0)
    BudgetedModel(Scripted(["x"]), held, lambda _: None).reply(request)
    (hold,) = held.holds
    assert hold.tokens >= count_tokens(text, encoding) + request.max_tokens
