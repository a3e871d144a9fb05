"""The reference in a runner of its own, timed exactly as candidates are.

A call in the judge's process starts with that process's translations and interpreter warm, a call in
a runner does not: the reference as its own candidate took some 40 us longer, which is nothing for a
convolution and half of a small softmax.
"""

from __future__ import annotations

import select
from collections.abc import Sequence
from typing import Any

from kb.errors import ToolchainError
from search.judging.cpu.session import CandidateSession
from search.judging.cpu.timing import CpuPinning, Sample
from search.judging.tolerance import TrialSet
from search.reference import Problem
from search.sandbox.faults import Fault
from search.sandbox.runner_handle import Worker, Zygote
from search.sandbox.sandbox import Cell
from search.sandbox.shared_memory import Arena, plan

_SECONDS = 120.0  # to start, and for one call: it is the user's own program


class Baseline:
    """Holds the reference as eager torch runs it, in memory that no candidate can reach.

    Raises:
        Fault: the reference's file does not run by itself, e.g. because it imports a neighbour.
    """

    def __init__(
        self, problem: Problem, bank: TrialSet, zygote: Zygote, cell: Cell, seats: CpuPinning
    ) -> None:
        layout = plan(problem.inputs, problem.state, problem.outputs)
        self._arena = Arena.create(layout)
        self._worker = Worker(zygote, self._arena, cell, seats.stage)
        self._zygote, self._parent = zygote, zygote.pid
        try:
            self._hearing = CandidateSession(
                problem, bank, self._arena, self._worker, seats, seconds=_SECONDS
            )
            source = f"{problem.task.source}\n\nModelNew = Model\n"
            self._hearing.load(source, {}, layout, _SECONDS)
            self._hearing.place(problem.inputs)
            self._hearing.start_timing()
        except Fault:
            self.close()
            raise

    def alive(self) -> bool:
        """Say whether its process runs; it dies with the zygote that forked it."""
        ended, _, _ = select.select([self._worker.child.handle], [], [], 0)
        return not ended and self._zygote.pid == self._parent

    def place(self, inputs: Sequence[Any]) -> None:
        """Put the inputs of the next call in place."""
        self._hearing.place(inputs)

    def sample(self) -> Sample:
        """Time one call.

        Raises:
            ToolchainError: the reference's process has ended.
        """
        try:
            return self._hearing.sample()
        except Fault as fault:
            raise ToolchainError(
                f"the reference's own process ended ({fault.outcome.kind}: {fault.outcome}): "
                "give it more memory, then kb resume the run"
            ) from fault

    def close(self) -> None:
        """Kill it."""
        self._worker.close()
        self._arena.close()
