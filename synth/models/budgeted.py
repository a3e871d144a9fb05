"""What a request may cost is asked before it is sent; what it did cost is booked after it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from kb.errors import ModelError
from kb.tokens import count_tokens
from synth.models import Model, Reply, Request
from synth.models.prices import Usage
from synth.models.waiting import Waiting, ask, finish

_OTHER_TOKENIZERS = 1.25  # what they may count of a text, beside the general one
Price = Callable[[Usage], float | None]


class Exhausted(ModelError):
    """A cap of the run has no room for the next request: the run ends in good order.

    The message is the reason, as the report gives it.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """What a request may take at most.

    Attributes:
        key: of the request.
        cost: in money, 0 where nobody knows the price.
    """

    key: str
    tokens: int
    cost: float


class Till(Protocol):
    """Guards the caps of a run."""

    def reserve(self, hold: Hold) -> None:
        """Put aside what a request may take at most.

        Raises:
            Exhausted: there is no room for it.
        """
        ...

    def release(self, hold: Hold, *, answered: bool) -> None:
        """Give back what was put aside: what was really spent is booked instead."""
        ...

    def lose(self, model: str, usage: Usage, cost: float | None) -> None:
        """Book tokens of answers that never came to an end."""
        ...


class BudgetedModel:
    """A model whose requests keep to the caps of a run.

    Args:
        price: what an exchange costs, None where nobody knows.
    """

    def __init__(self, model: Model, till: Till, price: Price) -> None:
        self._model = model
        self._till = till
        self._price = price

    @property
    def name(self) -> str:
        """The model's name."""
        return self._model.name

    def reply(self, request: Request) -> Reply:
        """Return what `ask` does, and wait for it."""
        return finish(self.ask(request))

    def ask(self, request: Request) -> Waiting[Reply]:
        """Return the model's answer, with what it cost.

        Raises:
            Exhausted: the request might cost more than is left.
            ModelError: the model cannot answer.
        """
        most = Usage(tokens_in=_at_most(request), tokens_out=request.max_tokens)
        hold = Hold(
            key=request.key(),
            tokens=most.tokens_in + most.tokens_out,
            cost=self._price(most) or 0.0,
        )
        self._till.reserve(hold)
        answered = True  # for all that is known, where the user breaks it off
        try:
            reply = self._counted(request, (yield from ask(self._model, request)))
        except ModelError as error:
            self._lost(request, error.lost)
            answered = False
            raise
        finally:
            self._till.release(hold, answered=answered)
        self._lost(request, reply.lost)
        return reply

    def _counted(self, request: Request, reply: Reply) -> Reply:
        """Return the reply with counts and cost, estimated where the endpoint gave none."""
        usage = Usage(
            tokens_in=reply.tokens_in or _characters(request) // 4,
            tokens_out=reply.tokens_out or -(-len(reply.text) // 4),
            cached=reply.cached,
        )
        cost = self._price(usage) if reply.cost is None else reply.cost
        return replace(reply, tokens_in=usage.tokens_in, tokens_out=usage.tokens_out, cost=cost)

    def _lost(self, request: Request, tokens: int) -> None:
        if tokens:
            usage = Usage(tokens_in=_characters(request) // 4, tokens_out=tokens)
            self._till.lose(self.name, usage, self._price(usage))


def _characters(request: Request) -> int:
    return sum(len(message.content) for message in request.messages) + len(request.schema or "")


def _at_most(request: Request) -> int:
    """Return the tokens of a prompt at most.

    Prose has more than three characters a token, kernels have some two and a half, and digits or
    other scripts have fewer: then what a general tokenizer counts says more.
    """
    counted = sum(count_tokens(message.content) for message in request.messages)
    return max(-(-_characters(request) // 3), int(counted * _OTHER_TOKENIZERS))
