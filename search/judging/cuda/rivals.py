"""The baselines, eager and torch.compile, each in a runner of its own, timed exactly as candidates are."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kb.errors import TaskError
from search.judging.cuda.hearing import CudaHearing, Draws
from search.judging.cuda.memory import CudaArena, Region
from search.judging.cuda.worker import CudaWorker
from search.judging.problem import Problem
from search.judging.trials import Bank
from search.judging.worker import Fault, Zygote

_LONG = 600.0  # seconds that torch.compile may take


class Rivals:
    """Starts the baselines, and again where the zygote that forked them has died.

    They share a region of device memory that no candidate reaches.

    Args:
        region: their memory, laid out as `told` says.
        told: what a runner is told of its memory.
        flush: bytes written between two timed calls.
        folder: for the compilers' caches.
        compiled: time torch.compile too.
    """

    def __init__(
        self,
        problem: Problem,
        bank: Bank,
        draws: Draws,
        zygote: Zygote,
        *,
        region: Region,
        told: Mapping[str, Any],
        flush: int,
        folder: Path,
        compiled: bool,
    ) -> None:
        self._problem, self._bank, self._draws = problem, bank, draws
        self._zygote, self._region, self._told = zygote, region, told
        self._flush, self._folder, self._compiled = flush, folder, compiled
        self._workers: list[CudaWorker] = []
        self.hearings: dict[str, CudaHearing] = {}
        self.compile_error: str | None = None

    def start(self) -> None:
        """Start them; `compile_error` says why torch.compile is not among them.

        Raises:
            TaskError: the reference does not run by itself.
        """
        self.hearings["eager"] = self._seat()
        if self._compiled:
            compiled = self._seat()
            self.compile_error = compiled.compile(_LONG)
            if self.compile_error is None:
                self.hearings["compile"] = compiled
        for hearing in self.hearings.values():
            hearing.start_timing()

    def ensure(self) -> None:
        """Start them anew where they have died."""
        if not all(worker.alive() for worker in self._workers):
            self.close()
            self.start()

    def memory(self) -> int:
        """Return the most bytes that one call of eager allocates."""
        eager = self.hearings["eager"]
        eager.end_timing()
        peak = eager.memory()
        eager.start_timing()
        return peak

    def _seat(self) -> CudaHearing:
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        environment = {
            **kept,
            "TORCHINDUCTOR_CACHE_DIR": str(self._folder / "inductor"),
            "TRITON_CACHE_DIR": str(self._folder / "triton"),
            "TORCHINDUCTOR_COMPILE_THREADS": "1",
        }
        worker = CudaWorker(
            self._zygote, None, builds=(), flush=self._flush, environment=environment
        )
        self._workers.append(worker)
        try:
            worker.ready()
            arena = CudaArena(worker.words, self._region, self._told)
            hearing = CudaHearing(self._problem, self._bank, arena, worker, seconds=_LONG)
            source = f"{self._problem.task.source}\n\nModelNew = Model\n"
            hearing.load(source, {}, dict(self._told), _LONG)
            hearing.refill(self._draws, 0, 2)
        except Fault as fault:
            raise TaskError(
                f"{self._problem.task.reference}: the reference does not run in a process of its own on the device: "
                f"{getattr(fault.outcome, 'reason', fault.outcome.kind)}"
            ) from fault
        return hearing

    def close(self) -> None:
        """Kill them."""
        for worker in self._workers:
            worker.close()
        self._workers, self.hearings = [], {}
