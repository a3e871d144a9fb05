"""A model whose exchanges are kept, so that a run can be replayed with no model at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kb.errors import ModelError
from synth.models import Model, Reply, Request
from synth.models.waiting import Waiting, ask, finish


class Exchanges(Protocol):
    """Keeps requests with their replies."""

    def get(self, key: str) -> Reply | None:
        """Return the reply kept under `key`, None where there is none."""
        ...

    def put(self, key: str, request: Request, reply: Reply) -> None:
        """Keep an exchange before its reply is used."""
        ...


class Recorded:
    """Answers from the record where it can, else asks `model` and keeps the exchange.

    Args:
        model: asked for what the record does not hold; None replays only.
        exchanges: the record.
        name: of the model that the record was made with, where `model` is None.
        noted: told every exchange, and whether the model was asked for it now.
    """

    def __init__(
        self,
        model: Model | None,
        exchanges: Exchanges,
        *,
        name: str = "recorded",
        noted: Callable[[Request, Reply, bool], None] | None = None,
    ) -> None:
        self._model = model
        self._exchanges = exchanges
        self._noted = noted
        self._name = model.name if model is not None else name

    def noting(self, noted: Callable[[Request, Reply, bool], None]) -> Recorded:
        """Return the same model, whose exchanges are told to another."""
        return Recorded(self._model, self._exchanges, name=self._name, noted=noted)

    @property
    def name(self) -> str:
        """The name of the model behind the record."""
        return self._name

    def reply(self, request: Request) -> Reply:
        """Return what `ask` does, and wait for it."""
        return finish(self.ask(request))

    def ask(self, request: Request) -> Waiting[Reply]:
        """Return the recorded reply, or ask the model and record its answer.

        Raises:
            ModelError: the record does not hold the request and there is no model, or the model
                cannot answer.
        """
        key = request.key()
        known = self._exchanges.get(key)
        if known is not None:
            self._note(request, known, fresh=False)
            return known
        if self._model is None:
            raise ModelError(
                f"replay: expected a recorded reply to request {key[:12]}, found none "
                f"(it begins {_beginning(request)!r}): configure a model to go on from here"
            )
        reply = yield from ask(self._model, request)
        self._exchanges.put(key, request, reply)
        self._note(request, reply, fresh=True)
        return reply

    def _note(self, request: Request, reply: Reply, *, fresh: bool) -> None:
        if self._noted is not None:
            self._noted(request, reply, fresh)


def _beginning(request: Request, width: int = 60) -> str:
    last = request.messages[-1].content if request.messages else ""
    return " ".join(last.split())[:width]
