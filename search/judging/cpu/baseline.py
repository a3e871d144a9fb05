"""The baselines, eager and torch.compile, each in a runner of its own, timed exactly as candidates are.

A call in the judge's process starts with that process's translations and interpreter warm, and need not
be woken up: the reference as its own candidate took some 40 us longer, which is nothing for a
convolution and half of a small softmax.
"""

from __future__ import annotations

import os
import select
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from kb.errors import ToolchainError
from search.judging.cpu.looks import Looks
from search.judging.cpu.session import CandidateSession
from search.judging.cpu.timing import CpuPinning, Drawn, Sample, one_thread
from search.judging.cpu.watching import Waking
from search.judging.trial import TrialSet
from search.outcome import Crashed
from search.profilers.sampling import Sampled
from search.reference import Problem
from search.sandbox.faults import Fault
from search.sandbox.runner_handle import Worker
from search.sandbox.sandbox import Cell
from search.sandbox.shared_memory import Arena, plan
from search.sandbox.zygote import Zygote

_SECONDS = 120.0  # to start, and for one call: it is the user's own program
_COMPILING = 600.0


class Timed:
    """Times a candidate as the baselines are timed."""

    def __init__(self, candidate_session: CandidateSession, waking: Waking) -> None:
        self._candidate_session, self._waking = candidate_session, waking

    def place(self, drawn: Drawn) -> None:
        """Put the inputs of the next call in place."""
        self._candidate_session.place(drawn)

    def sample(self) -> Sample:
        """Time one call."""
        return self._waking.less(self._candidate_session.sample())


class Baseline:
    """Holds the reference, or the user's own kernel, in memory that no candidate can reach.

    Args:
        cell: the walls around it; None for torch.compile, which starts compilers.
        waking: is told what a call takes that does nothing.
        compiled: folder of torch.compile's caches, None for eager.
        mode: of torch.compile.
        own: source and built parts of a kernel, which is loaded and questioned as a candidate is.
        program: that follows the reference's own, and defines ``ModelNew``.

    Raises:
        Fault: the reference's file does not run by itself, e.g. because it imports a neighbour,
            torch.compile cannot take it, or the kernel is wrong.
    """

    def __init__(  # noqa: PLR0913 - what every runner is started with
        self,
        problem: Problem,
        trial_set: TrialSet,
        zygote: Zygote,
        cell: Cell | None,
        seats: CpuPinning,
        waking: Waking,
        *,
        compiled: Path | None = None,
        mode: str | None = None,
        own: tuple[str, Mapping[str, str]] | None = None,
        program: str = "ModelNew = Model",
    ) -> None:
        layout = plan(problem.inputs, problem.state)
        self._arena = Arena.create(layout)
        more: dict[str, Any] = {}
        if compiled is not None:
            more = {"environment": trusted_environment(compiled)}
        self._worker = Worker(zygote, self._arena, cell, seats.stage, more)
        self._zygote, self._parent = zygote, zygote.pid
        self._waking = waking
        self._whose = "the reference's own" if own is None else "a baseline kernel's"
        source, prebuilt = own or (f"{problem.task.source}\n\n{program}\n", {})
        try:
            self._worker.ready()
            self._candidate_session = CandidateSession(
                problem,
                trial_set,
                self._arena,
                self._worker,
                seats,
                seconds=_SECONDS,
                trusted=own is None,
            )
            self._candidate_session.load(source, prebuilt, layout, _SECONDS)
            if own is not None:
                with one_thread():  # its calls leave this process on the runner's processor
                    self._candidate_session.question()
            if compiled is not None:
                failed = self._candidate_session.compile(_COMPILING, mode)
                if failed is not None:
                    raise Fault(Crashed(reason=failed))
            self._candidate_session.start_timing()
        except Fault:
            self.close()
            raise

    def alive(self) -> bool:
        """Say whether its process runs; it dies with the zygote that forked it."""
        ended, _, _ = select.select([self._worker.child.handle], [], [], 0)
        return not ended and self._zygote.pid == self._parent

    def place(self, drawn: Drawn) -> None:
        """Put the inputs of the next call in place."""
        self._candidate_session.place(drawn)

    def sample(self) -> Sample:
        """Time one call.

        Raises:
            ToolchainError: the reference's process has ended.
        """
        try:
            return self._waking.less(self._candidate_session.sample())
        except Fault as fault:
            raise self._ended(fault) from fault

    def wake(self) -> None:
        """Measure a call that does nothing."""
        try:
            self._waking.note(self._candidate_session.empty())
        except Fault as fault:
            raise self._ended(fault) from fault

    @contextmanager
    def sampled(self, every: int) -> Iterator[None]:
        """Let its calls cost what sampling a candidate's costs."""
        sampled = Sampled(self._worker.child.pid, every)
        sampled.start()
        try:
            yield
        finally:
            sampled.close()

    def looked_at(self, every: int) -> AbstractContextManager[Looks]:
        """Look at whose code its calls are in; `every`: ns of processor time between samples."""
        return self._candidate_session.looked_at((), every)

    def _ended(self, fault: Fault) -> ToolchainError:
        return ToolchainError(
            f"{self._whose} process ended ({fault.outcome.kind}: {fault.outcome}): "
            "give it more memory, then kb resume the run"
        )

    def close(self) -> None:
        """Kill it."""
        self._worker.close()
        self._arena.close()


def trusted_environment(folder: Path) -> dict[str, str]:
    """Return what the user's own reference runs with: compilers' caches are kept in `folder`."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return {
        **kept,
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "TRITON_CACHE_DIR": str(folder / "triton"),
        # Worker processes would outlive the preparation and disturb the timing.
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
    }
