"""Waits for answers that take long, one or several at once, without a thread for each."""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Protocol, TypeVar, runtime_checkable

from synth.models import Model, Reply, Request

T = TypeVar("T")
# Yields as long as an answer has not come, then returns what it waited for.
Waiting = Generator[None, None, T]
LOOK_SECONDS = 0.2  # between two looks for an answer


@runtime_checkable
class DeferredModel(Protocol):
    """A model whose answers take long: a person's, by letter."""

    def ask(self, request: Request) -> Waiting[Reply]:
        """Send a request; yield as long as its answer has not come, then return it.

        Whoever stops waiting closes the generator: what was sent stays sent.

        Raises:
            ModelError: the model cannot be reached or refuses the request.
        """
        ...


def ask(model: Model, request: Request) -> Waiting[Reply]:
    """Ask a model; one that answers at once never yields."""
    if isinstance(model, DeferredModel):
        return (yield from model.ask(request))
    return model.reply(request)


def finish(waiting: Waiting[T], seconds: float = LOOK_SECONDS) -> T:
    """Wait to the end, and return what came.

    Args:
        seconds: between two looks.
    """
    while True:
        try:
            next(waiting)
        except StopIteration as end:
            found: T = end.value
            return found
        time.sleep(seconds)
