"""The baselines, eager and torch.compile, each in a runner of its own, timed exactly as candidates are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kb.errors import TaskError
from search.comparisons import modes_of
from search.judging.cuda.batches import Mirror
from search.judging.cuda.draws import Draws
from search.judging.cuda.memory import CudaArena, Regions
from search.judging.cuda.session import CudaCandidateSession
from search.judging.cuda.worker import CudaWorker
from search.judging.trial import TrialSet
from search.reference import Problem
from search.sandbox.faults import Fault

_LONG = 600.0  # seconds that torch.compile may take


class BaselineRunners:
    """Starts the baselines' runners, some of them ahead: they warm up beside what else is prepared.

    Args:
        start: starts a runner that compiles for itself.
    """

    def __init__(self, start: Callable[[], CudaWorker]) -> None:
        self._start = start
        self._ahead: dict[bool, CudaWorker] = {}  # by whether it is for torch.compile

    def launch_ahead(self, *, compiled: bool) -> None:
        """Start eager's, and `compiled`: one for torch.compile, where they are not there yet."""
        for compiles in (False, True) if compiled else (False,):
            if compiles not in self._ahead:
                self._ahead[compiles] = self._launch(compiles=compiles)

    def take(self, *, compiles: bool) -> CudaWorker:
        """Return a runner: the one that was started ahead, if it still lives."""
        ready = self._ahead.pop(compiles, None)
        if ready is not None:
            if ready.alive():
                return ready
            ready.close()
        return self._launch(compiles=compiles)

    def _launch(self, *, compiles: bool) -> CudaWorker:
        worker = self._start()
        if compiles:
            worker.begin_import()
        else:
            worker.begin()
        return worker

    def close(self) -> None:
        """Kill those that nobody has taken."""
        while self._ahead:
            self._ahead.popitem()[1].close()


class Baselines:
    """Starts the baselines, and again where the zygote that forked them has died.

    They share device memory that no candidate reaches. Where memory is scarce, candidates and they take turns with one
    place for inputs and answers, and their parameters alone lie apart.

    Args:
        runners: where theirs come from.
        memory: theirs.
        mirror: where answers are copied to, as a candidate's are.
        told: what a runner is told of it.
    """

    def __init__(  # noqa: PLR0913 - what a candidate's runner is started with, too
        self,
        problem: Problem,
        trial_set: TrialSet,
        draws: Draws,
        runners: BaselineRunners,
        memory: Regions,
        mirror: Mirror,
        told: Mapping[str, Any],
    ) -> None:
        self._problem, self._trial_set, self._draws = problem, trial_set, draws
        self._runners, self._memory, self._mirror, self._told = runners, memory, mirror, told
        self._workers: list[CudaWorker] = []
        self._compiled = False
        self.hearings: dict[str, CudaCandidateSession] = {}
        self.compile_error: str | None = None
        self.notes: list[str] = []

    def start(self, *, compiled: bool) -> None:
        """Start them; `compile_error` and `notes` say why one is not among them.

        Args:
            compiled: start torch.compile too.

        Raises:
            TaskError: the reference does not run by itself.
        """
        self._compiled = compiled
        self.notes = [
            f"{name} is no baseline here: kernels of one's own are timed on processors alone so far"
            for name, _ in self._problem.task.kernels
        ]
        eager, *others = self._loaded(False, True) if compiled else self._loaded(False)
        self.hearings["eager"] = eager
        for other in others:
            self.compile_error = other.compile(_LONG)
            if self.compile_error is None:
                self.hearings["compile"] = other
            for mode in modes_of(self._problem.task):
                (one,) = self._loaded(True)
                failed = one.compile(_LONG, mode)
                if failed is None:
                    self.hearings[mode] = one
                else:
                    self.notes.append(f"{mode} is no baseline here: {failed}")
        for candidate_session in self.hearings.values():
            candidate_session.start_timing()

    def ensure(self) -> None:
        """Start them anew where one has died, or raised in a timed call."""
        running = all(candidate_session.timing for candidate_session in self.hearings.values())
        if not running or not all(worker.alive() for worker in self._workers):
            self.close()
            self.start(compiled=self._compiled)

    def memory(self) -> int:
        """Return the most bytes that one call of eager allocates."""
        given = (self._draws, self._draws.draw(1, audits=False))
        told = self.hearings["eager"].batch(1, 1, given=given).told or {}
        return int(told.get("peak", 0))

    def _loaded(self, *kinds: bool) -> list[CudaCandidateSession]:
        """Return seats with the reference in them, which is constructed in all at once: gigabytes of parameters take seconds.

        Args:
            kinds: of each, whether it is for torch.compile.
        """
        source = f"{self._problem.task.source}\n\nModelNew = Model\n"
        try:
            seats = [self._seat(compiles=kind) for kind in kinds]
            # They share the memory that parameters are handed over in: nobody clears it while another one reads.
            for one in seats:
                one.clear()
            for one in seats:
                one.begin_load(source, {}, dict(self._told), _LONG)
            for one in seats:
                one.end_load(_LONG)
            for one in seats:
                one.adopt(_LONG)
        except Fault as fault:
            raise TaskError(
                f"{self._problem.task.reference}: the reference does not run in a process of its own on the device: "
                f"{getattr(fault.outcome, 'reason', fault.outcome.kind)}"
            ) from fault
        return seats

    def _seat(self, *, compiles: bool) -> CudaCandidateSession:
        worker = self._runners.take(compiles=compiles)
        self._workers.append(worker)
        worker.ready()
        arena = CudaArena(worker.words, self._memory, self._told)
        return CudaCandidateSession(
            self._problem,
            self._trial_set,
            arena,
            worker,
            self._memory[0],
            self._mirror,
            seconds=_LONG,
            trusted=True,
        )

    def close(self) -> None:
        """Kill them."""
        for worker in self._workers:
            worker.close()
        self._workers, self.hearings = [], {}
