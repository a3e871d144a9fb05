from collections.abc import Callable
from pathlib import Path

import pytest
from machines import BOUNDLESS

from kb.records.schema import TargetRecord
from search.judging.cpu.judge import CpuJudge
from search.judging.limits import Limits
from search.outcome import Outcome, Refused
from search.reference import load_problem
from search.sandbox.zygote import Zygote
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


@pytest.fixture
def judged(
    make_task: Callable[..., Task], tmp_path: Path, warm: Zygote
) -> Callable[[TargetRecord, str, str, str], Outcome]:
    def judge(target: TargetRecord, forward: str, inputs: str, answer: str) -> Outcome:
        problem = load_problem(make_task(REFERENCE.format(forward=forward, inputs=inputs)))
        made = CpuJudge(problem, target, folder=tmp_path, limits=LIMITS, zygote=warm)
        try:
            made.prepare()
            source = REFERENCE.format(forward=answer, inputs=inputs).replace("Model(", "ModelNew(")
            return made.judge(source)
        finally:
            made.close()

    return judge


# Each takes far less than the reference's arithmetic or traffic would, and cheats in nothing.
@pytest.mark.slow
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
    judged: Callable[..., Outcome], forward: str, inputs: str, answer: str
) -> None:
    outcome = judged(MODEST, forward, inputs, answer)
    assert outcome.kind == "passed", outcome


@pytest.mark.slow
def test_what_is_faster_than_the_device_is_refused(judged: Callable[..., Outcome]) -> None:
    slow = MODEST.model_copy(update={"flops_per_cycle": {"float32": 0.05}})
    forward = "return x @ y"
    outcome = judged(slow, forward, f"{SQUARE}, {SQUARE}", forward)
    assert isinstance(outcome, Refused)
    assert outcome.trick == "beats-the-roofline"
