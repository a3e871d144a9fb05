"""Answers in float16 and bfloat16: float32 arithmetic rounded once passes, arithmetic in the short type does not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from search.judging.cpu.judge import CpuJudge
from search.judging.tolerance import make_trials
from search.judging.trial import TrialSet, inside
from search.outcome import Passed
from search.reference import load_problem
from search.task import Task

NORM = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        return nn.functional.rms_norm(x, x.shape[-1:], eps=1e-5)

def get_inputs():
    return [torch.randn(256, 1024).to(torch.{dtype})]
"""
PRODUCT = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(512, 128).to(torch.{dtype})
    def forward(self, x):
        return torch.relu(self.linear(x))

def get_inputs():
    return [torch.randn(64, 512).to(torch.{dtype})]
"""
SHORT = ("float16", "bfloat16")
CANDIDATE = """
import ctypes
import torch
from kb.native import load_cpp

LIB = load_cpp(r'''
#include <math.h>
extern "C" void norm(const _Float16 *x, _Float16 *y, long m, long n) {
  for (long i = 0; i < m; i++) {
    const _Float16 *a = x + i * n; _Float16 *b = y + i * n;
    float s[8] = {0};
    for (long j = 0; j < n; j += 8) for (int k = 0; k < 8; k++) s[k] += (float)a[j + k] * (float)a[j + k];
    for (int k = 1; k < 8; k++) s[0] += s[k];
    float r = 1 / sqrtf(s[0] / n + 1e-5f);
    for (long j = 0; j < n; j++) b[j] = (_Float16)((float)a[j] * r);
  }
}''')

class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        LIB.norm(ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(y.data_ptr()), *map(ctypes.c_long, x.shape))
        return y
"""


@pytest.fixture(scope="module")
def trials(make_task: Callable[..., Task]) -> Callable[[str], tuple[torch.nn.Module, TrialSet]]:
    made: dict[str, tuple[torch.nn.Module, TrialSet]] = {}

    def get(source: str) -> tuple[torch.nn.Module, TrialSet]:
        if source not in made:
            problem = load_problem(make_task(source))
            made[source] = problem.model, make_trials(problem, 3)
        return made[source]

    return get


def refusing(trial_set: TrialSet, answer: Callable[[torch.Tensor], torch.Tensor]) -> list[str]:
    return [t.distribution for t in trial_set.trials if not inside(t, (answer(*t.inputs),))]


def norm(x: torch.Tensor) -> torch.Tensor:
    wide = x.float()
    return (wide * torch.rsqrt((wide * wide).mean(-1, keepdim=True) + 1e-5)).to(x.dtype)


@pytest.mark.parametrize("dtype", SHORT)
def test_what_is_rounded_once_passes_and_a_neighbour_of_it_too(trials, dtype: str) -> None:
    _, trial_set = trials(NORM.format(dtype=dtype))
    assert len(trial_set.trials) >= 6
    assert refusing(trial_set, norm) == []
    step = torch.finfo(getattr(torch, dtype)).eps
    assert refusing(trial_set, lambda x: (norm(x).float() * (1 + step / 2)).to(x.dtype)) == []


@pytest.mark.parametrize("dtype", SHORT)
def test_four_steps_away_is_wrong_on_every_distribution(trials, dtype: str) -> None:
    _, trial_set = trials(NORM.format(dtype=dtype))
    step = torch.finfo(getattr(torch, dtype)).eps
    off = refusing(trial_set, lambda x: (norm(x).float() * (1 + 4 * step)).to(x.dtype))
    assert {trial.distribution for trial in trial_set.trials} - set(off) <= {"special"}


@pytest.mark.parametrize("dtype", SHORT)
def test_sums_in_the_short_type_are_wrong(trials, dtype: str) -> None:
    def short(x: torch.Tensor) -> torch.Tensor:
        total = torch.zeros_like(x[:, 0])
        for column in (x * x).unbind(-1):
            total = total + column
        return x * torch.rsqrt(total / x.shape[-1] + 1e-5)[:, None]

    _, trial_set = trials(NORM.format(dtype=dtype))
    assert "task" in refusing(trial_set, short)


@pytest.mark.parametrize("dtype", SHORT)
def test_a_product_of_short_operands_is_added_up_in_float32(trials, dtype: str) -> None:
    model, trial_set = trials(PRODUCT.format(dtype=dtype))
    weight, bias = model.linear.weight.float(), model.linear.bias.float()
    assert (
        refusing(trial_set, lambda x: torch.relu(x.float() @ weight.t() + bias).to(x.dtype)) == []
    )
    without_last = weight.clone()
    without_last[:, -1] = 0
    assert refusing(
        trial_set, lambda x: torch.relu(x.float() @ without_last.t() + bias).to(x.dtype)
    )


@pytest.mark.slow
def test_a_kernel_of_half_precision_is_judged(make_judge: Callable[..., CpuJudge]) -> None:
    judge = make_judge(NORM.format(dtype="float16"))
    outcome = judge.judge(CANDIDATE)
    assert isinstance(outcome, Passed), outcome
    wrong = judge.judge(CANDIDATE.replace("float s[8]", "_Float16 s[8]"))
    assert wrong.kind == "wrong"
