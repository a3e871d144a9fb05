"""What a call spends that computes nothing: addresses of inputs, memory for outputs, the interpreter.

With cold caches that takes some 20 us in the library, longer than a small kernel, and 100 to 200 in the
interpreter. Whoever asks in whose code a candidate's time goes has to know both.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter

from kb.errors import ToolchainError
from search.judging.cpu.baseline import Baseline
from search.judging.cpu.looks import CLOSELY, CodeTime
from search.judging.cpu.timing import Drawn
from search.judging.cpu.watching import ENOUGH, until_seen
from search.reference import Problem
from search.sandbox.faults import Fault

_WARM_UPS, _CALLS = 3, 96
UNKNOWN = CodeTime(own=0.0, library=0.0, met=0)  # all of the library's time counts then
_known: dict[tuple[int, int], CodeTime] = {}  # by how many tensors: the same for every task
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
) -> CodeTime:
    """Return the time of a call by whose code it is in, `UNKNOWN` where it cannot be measured.

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

    def call(rival: Baseline) -> bool:
        rival.place(draw())
        empty_caches()
        return rival.sample().seen

    try:
        rival = seat(program)
        try:
            for _ in range(_WARM_UPS):
                call(rival)
            with rival.looked_at(CLOSELY) as looks:

                def measured() -> tuple[CodeTime, float]:
                    seen = sum(call(rival) for _ in range(_CALLS)) / _CALLS
                    return looks.spent(), seen

                spent, seen = until_seen(measured, itemgetter(1), looks.forget)
        finally:
            rival.close()
    except (Fault, ToolchainError, OSError):
        return UNKNOWN
    if not again and seen >= ENOUGH:
        _known[counts] = spent
    return spent
