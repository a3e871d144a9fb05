from collections.abc import Callable
from pathlib import Path

import pytest
from machines import BOUNDLESS

from kb.records.schema import TargetRecord
from search.judging.cpu.judge import CpuJudge
from search.judging.limits import Limits
from search.outcome import Outcome, Refused
from search.reference import load_problem
from search.task import Task

LIMITS = Limits(timing_seconds=0.1, thorough_seconds=0.4, compile=False, memory=1 << 30)
# A few times what two old cores do, and caches that count as memory.
MODEST = BOUNDLESS.model_copy(
    update={"flops_per_cycle": {"float32": 16}, "peak": {"float32": 1.6e11}, "bandwidth": 4e10}
)
REFERENCE = """
import torch
import torch.nn as nn
class Model(nn.Module):
    def forward(self, x, y):
        {forward}
def get_inputs():
    return [{inputs}]
"""
SQUARE = "torch.randn(384, 384)"


def judged(
    make_task: Callable[..., Task],
    folder: Path,
    target: TargetRecord,
    forward: str,
    inputs: str,
    answer: str,
) -> Outcome:
    task = make_task(REFERENCE.format(forward=forward, inputs=inputs))
    judge = CpuJudge(load_problem(task), target, folder=folder, limits=LIMITS)
    try:
        judge.prepare()
        source = REFERENCE.format(forward=answer, inputs=inputs).replace("Model(", "ModelNew(")
        return judge.judge(source)
    finally:
        judge.close()


# Each takes far less than the reference's arithmetic or traffic would, and cheats in nothing.
@pytest.mark.parametrize(
    ("forward", "inputs", "answer"),
    [
        ("return torch.diag(x) @ y", f"torch.randn(384), {SQUARE}", "return x[:, None] * y"),
        ("return (x @ y.T) @ y", "torch.randn(1024, 16), torch.randn(1024, 16)", "return x @ (y.T @ y)"),
        ("return (x @ y)[:8].contiguous()", f"{SQUARE}, {SQUARE}", "return x[:8] @ y"),
        ("return x[:, :64] + y", "torch.randn(512, 8192), torch.randn(512, 64)", "return x[:, :64] + y"),
    ],
    ids=["a diagonal", "another order", "some rows", "some columns"],
)  # fmt: skip
def test_a_program_that_spares_work_is_no_cheat(
    make_task: Callable[..., Task], tmp_path: Path, forward: str, inputs: str, answer: str
) -> None:
    outcome = judged(make_task, tmp_path, MODEST, forward, inputs, answer)
    assert outcome.kind == "passed", outcome


def test_what_is_faster_than_the_device_is_refused(
    make_task: Callable[..., Task], tmp_path: Path
) -> None:
    slow = MODEST.model_copy(update={"flops_per_cycle": {"float32": 0.05}})
    forward = "return x @ y"
    outcome = judged(make_task, tmp_path, slow, forward, f"{SQUARE}, {SQUARE}", forward)
    assert isinstance(outcome, Refused)
    assert outcome.trick == "beats-the-roofline"
