"""What a call spends in the library that computes nothing there: addresses of inputs, memory for outputs.

With cold caches that takes some 20 us, longer than a small kernel. Whoever asks in whose code a
candidate's time goes has to leave it out.
"""

from __future__ import annotations

from collections.abc import Callable

from kb.errors import ToolchainError
from search.judging.cpu.baseline import Baseline
from search.judging.cpu.looks import CLOSELY
from search.judging.cpu.timing import Drawn
from search.reference import Problem
from search.sandbox.faults import Fault

_WARM_UPS, _CALLS = 3, 96
_known: dict[tuple[int, int], float] = {}  # by how many tensors: the same for every task
_PROGRAM = """
import torch
class ModelNew(Model):
    def forward(self, *inputs):
        for value in inputs:
            isinstance(value, torch.Tensor) and value.data_ptr()
        return tuple(torch.empty(shape) for shape in {shapes}){single}
"""


def measure_handling(
    problem: Problem,
    seat: Callable[[str], Baseline],
    draw: Callable[[], Drawn],
    empty_caches: Callable[[], None],
    *,
    again: bool = False,
) -> float:
    """Return seconds of a call, 0 where they cannot be measured.

    Args:
        again: measure it although it is known, for this once: a busy machine is slower.
        seat: puts a program that follows the reference's own into a runner.
        draw: makes inputs.
        empty_caches: before each call.
    """
    counts = len(problem.inputs), len(problem.outputs)
    if counts in _known and not again:
        return _known[counts]
    shapes = [layout.shape for layout in problem.outputs]
    program = _PROGRAM.format(shapes=shapes, single="[0]" if problem.single_output else "")

    def call(rival: Baseline) -> None:
        rival.place(draw())
        empty_caches()
        rival.sample()

    try:
        rival = seat(program)
        try:
            for _ in range(_WARM_UPS):
                call(rival)
            with rival.looked_at(CLOSELY) as looks:
                for _ in range(_CALLS):
                    call(rival)
                spent = looks.spent().library
        finally:
            rival.close()
    except (Fault, ToolchainError, OSError):
        return 0.0  # all of the library's time counts then
    if not again:
        _known[counts] = spent
    return spent
