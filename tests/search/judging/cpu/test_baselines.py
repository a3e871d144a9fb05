"""Baselines that a task asks for are timed beside the usual ones, and a kernel of one's own is not trusted."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace

import pytest

from search.judging.cpu.judge import CpuJudge
from search.judging.limits import Limits
from search.reference import load_problem
from search.task import load_task

REFERENCE = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return x.exp() / x.exp().sum(dim=-1, keepdim=True)

def get_inputs():
    return [torch.randn(64, 512)]
"""
KERNEL = """
import torch

class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1){more}
"""
LIMITS = Limits(call_seconds=1.0, timing_seconds=0.1, compile=False, memory=1 << 30)


@pytest.fixture
def judge(tmp_path, builds, warm) -> Callable[..., CpuJudge]:
    from machines import BOUNDLESS

    made: list[CpuJudge] = []

    def make(baselines: str, limits: Limits = LIMITS, **kernels: str) -> CpuJudge:
        (tmp_path / "reference.py").write_text(REFERENCE)
        for name, source in kernels.items():
            (tmp_path / f"{name}.py").write_text(source)
        (tmp_path / "task.yaml").write_text(f"reference: reference.py\nbaselines: {baselines}\n")
        task = load_task(tmp_path / "task.yaml")
        made.append(
            CpuJudge(load_problem(task), BOUNDLESS, folder=builds, limits=limits, zygote=warm)
        )
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.mark.slow
def test_a_kernel_of_the_user_is_a_third_column_with_its_interval(judge) -> None:
    mine = judge("[production.py]", production=KERNEL.format(more=""))
    processors = os.sched_getaffinity(0)
    assert set(mine.prepare().baselines) == {"eager", "production"}
    assert os.sched_getaffinity(0) == processors
    outcome = mine.judge(KERNEL.format(more=".clone()"))
    assert outcome.kind == "passed", outcome
    assert list(outcome.speedup) == ["eager", "production"]
    ratio = outcome.speedup["production"]
    assert ratio.low <= ratio.ratio <= ratio.high
    assert outcome.calls["production"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "why"),
    [
        (KERNEL.format(more=" * 1.01"), "(wrong)"),
        ("raise RuntimeError('not here')", "not here"),
        (
            KERNEL.replace("return", "open('/etc/passwd').read(); return").format(more=""),
            "(crashed)",
        ),
    ],
)
def test_a_kernel_that_would_not_pass_as_a_candidate_is_no_baseline_and_that_is_said(
    judge, source, why
) -> None:
    prepared = judge("[production.py]", production=source).prepare()
    assert set(prepared.baselines) == {"eager"}
    (note,) = [note for note in prepared.notes if note.startswith("production is no baseline")]
    assert why in note


@pytest.mark.slow
def test_modes_of_the_compiler_are_baselines_by_their_names(judge) -> None:
    prepared = judge("[max-autotune]", replace(LIMITS, compile=True)).prepare()
    assert set(prepared.baselines) == {"eager", "compile", "max-autotune"}, prepared.notes
