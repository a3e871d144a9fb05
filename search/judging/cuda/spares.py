"""Runners that wait for a candidate: their contexts are made while others are questioned, never beside their judge's measurements."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from kb.errors import ToolchainError
from search.judging.cuda.worker import CudaWorker
from search.sandbox.faults import Fault
from search.sandbox.zygote import Zygote

_ATTEMPTS = 2


class SpareRunners:
    """Starts runners ahead of need; that takes longer than all questions to a candidate.

    Args:
        start: starts one, which brings the driver up and no more; told whether it is for several streams.
        begin: has it make its context and open the judge's memory.
        zygote: what they are forked from.
    """

    def __init__(
        self,
        start: Callable[[bool], CudaWorker],
        begin: Callable[[CudaWorker], None],
        zygote: Zygote,
    ) -> None:
        self._start, self._begin, self._zygote = start, begin, zygote
        self._started: deque[CudaWorker] = deque()  # without a context
        self._waiting: deque[CudaWorker] = deque()

    def start(self) -> None:
        """See that one has started that `ahead` can go on with: beside a measurement no more than that may be done."""
        _drop_dead(self._started)
        if not self._started:
            self._started.append(self._start(False))

    def ahead(self, count: int) -> None:
        """See that at least so many have a context, or make theirs."""
        while len(self._waiting) < count:
            worker = self._started.popleft() if self._started else self._start(False)
            self._begin(worker)
            self._waiting.append(worker)

    def take(self, *, several_streams: bool = False) -> CudaWorker:
        """Return one whose context is made and whose walls stand; one for several streams is not started ahead.

        Raises:
            ToolchainError: none can be started.
        """
        for workers in (self._waiting, self._started):
            _drop_dead(workers)
        for attempt in range(_ATTEMPTS):
            if several_streams:
                worker = self._start(True)
                self._begin(worker)
            else:
                self.ahead(1)
                worker = self._waiting.popleft()
            try:
                worker.ready()
                return worker
            except Fault as fault:
                worker.close()
                self._end()  # the next one is a fresh one
                if attempt == _ATTEMPTS - 1:
                    raise ToolchainError(
                        f"a process for candidates cannot start CUDA ({getattr(fault.outcome, 'reason', fault.outcome.kind)}"
                        f"; {getattr(fault.outcome, 'detail', '')[-300:]}): kb doctor may say why"
                    ) from fault
        raise AssertionError

    def rest(self) -> None:
        """Wait until none of them warms up, and those that were killed are gone: a measurement begins."""
        for worker in tuple(self._waiting):
            try:
                worker.ready()
            except Fault:  # `take` says why, where another one cannot start either
                self._waiting.remove(worker)
                worker.close()
        self._zygote.reap()

    def close(self) -> None:
        """Kill them, and see that all that was killed has given its memory back."""
        self._end()
        self._zygote.reap()

    def _end(self) -> None:
        for workers in (self._waiting, self._started):
            while workers:
                workers.popleft().close()


def _drop_dead(workers: deque[CudaWorker]) -> None:
    """Leave out those that died while they waited, as they do with their zygote."""
    for worker in tuple(workers):
        if not worker.alive():
            workers.remove(worker)
            worker.close()
