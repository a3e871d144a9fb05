"""A model whose requests are sent from threads: several are under way, and nobody waits for one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from synth.models import Model, Reply, Request
from synth.models.waiting import Waiting, finish


class Threaded:
    """Sends each request in a thread of its own.

    Args:
        model: asked by several threads at once.
        concurrency: requests under way at most; more wait their turn.
    """

    def __init__(self, model: Model, concurrency: int) -> None:
        self._model = model
        self._threads = ThreadPoolExecutor(concurrency, "model")

    @property
    def name(self) -> str:
        """The model's name."""
        return self._model.name

    def reply(self, request: Request) -> Reply:
        """Return what `ask` does, and wait for it."""
        return finish(self.ask(request))

    def ask(self, request: Request) -> Waiting[Reply]:
        """Send a request; yield as long as its answer has not come, then return it.

        Raises:
            ModelError: the model cannot be reached or refuses the request.
        """
        future = self._threads.submit(self._model.reply, request)
        try:
            while not future.done():
                yield
        finally:
            future.cancel()
        return future.result()
