"""The baselines, eager and torch.compile, each in a runner of its own, timed exactly as candidates are."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kb.errors import TaskError
from search.judging.cuda.memory import CudaArena, DeviceRegion
from search.judging.cuda.session import CudaCandidateSession, Draws
from search.judging.cuda.worker import CudaWorker
from search.judging.tolerance import TrialSet
from search.reference import Problem
from search.sandbox.faults import Fault

_LONG = 600.0  # seconds that torch.compile may take


class Baselines:
    """Starts the baselines, and again where the zygote that forked them has died.

    They share a region of device memory that no candidate reaches.

    Args:
        launch: starts a runner that compiles for itself.
        region: their memory.
        told: what a runner is told of it.
    """

    def __init__(
        self,
        problem: Problem,
        bank: TrialSet,
        draws: Draws,
        launch: Callable[[], CudaWorker],
        region: DeviceRegion,
        told: Mapping[str, Any],
    ) -> None:
        self._problem, self._bank, self._draws = problem, bank, draws
        self._launch, self._region, self._told = launch, region, told
        self._workers: list[CudaWorker] = []
        self._compiled = False
        self.hearings: dict[str, CudaCandidateSession] = {}
        self.compile_error: str | None = None

    def start(self, *, compiled: bool) -> None:
        """Start them; `compile_error` says why torch.compile is not among them.

        Args:
            compiled: start torch.compile too.

        Raises:
            TaskError: the reference does not run by itself.
        """
        self._compiled = compiled
        self.hearings["eager"] = self._seat()
        if compiled:
            other = self._seat()
            self.compile_error = other.compile(_LONG)
            if self.compile_error is None:
                self.hearings["compile"] = other
        for hearing in self.hearings.values():
            hearing.start_timing()

    def ensure(self) -> None:
        """Start them anew where one has died, or raised in a timed call."""
        running = all(hearing.timing for hearing in self.hearings.values())
        if not running or not all(worker.alive() for worker in self._workers):
            self.close()
            self.start(compiled=self._compiled)

    def memory(self) -> int:
        """Return the most bytes that one call of eager allocates."""
        eager = self.hearings["eager"]
        eager.end_timing()
        peak = eager.memory()
        eager.start_timing()
        return peak

    def _seat(self) -> CudaCandidateSession:
        worker = self._launch()
        self._workers.append(worker)
        try:
            worker.ready()
            arena = CudaArena(worker.words, self._region, self._told)
            hearing = CudaCandidateSession(self._problem, self._bank, arena, worker, seconds=_LONG)
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


def trusted_environment(folder: Path) -> dict[str, str]:
    """Return what the user's own reference runs with: compilers' caches are kept in `folder`."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return {
        **kept,
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "TRITON_CACHE_DIR": str(folder / "triton"),
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
    }
