from collections.abc import Callable

import pytest

from search.judging.cpu.judge import CpuJudge

REFERENCE = """
import torch
import torch.nn as nn
class Model(nn.Module):
    def __init__(self, k, n):
        super().__init__()
        self.linear = nn.Linear(k, n)
    def forward(self, x):
        return torch.relu(self.linear(x))
def get_inputs():
    return [torch.rand(16, 24)]
def get_init_inputs():
    return [24, 32]
"""
PACKS = """
import torch
import torch.nn as nn
class ModelNew(nn.Module):
    def __init__(self, k, n):
        super().__init__()
        self.linear = nn.Linear(k, n)
        self.packed = self.linear.weight.detach().t().contiguous()
        self.shift = self.linear.bias.detach().clone()
    def forward(self, x):
        return torch.relu(x @ self.packed + self.shift)
"""


@pytest.mark.slow
def test_weights_may_be_packed_in_the_constructor(make_judge: Callable[..., CpuJudge]) -> None:
    assert make_judge(REFERENCE).judge(PACKS).kind == "passed"


@pytest.mark.slow
def test_a_bias_that_is_left_out_is_still_seen(make_judge: Callable[..., CpuJudge]) -> None:
    outcome = make_judge(REFERENCE).judge(PACKS.replace(" + self.shift", ""))
    assert outcome.kind == "wrong"


@pytest.mark.slow
def test_where_the_task_forbids_it_the_verdict_says_so(make_judge: Callable[..., CpuJudge]) -> None:
    outcome = make_judge(REFERENCE, packing="forbidden").judge(PACKS)
    assert outcome.kind == "wrong"
    assert "forbids packing" in outcome.detail


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["allowed", "forbidden"])
def test_packing_in_forward_is_always_right(
    make_judge: Callable[..., CpuJudge], setting: str
) -> None:
    later = PACKS.replace(
        "return torch.relu(x @ self.packed + self.shift)",
        "return torch.relu(x @ self.linear.weight.t().contiguous() + self.linear.bias)",
    )
    assert make_judge(REFERENCE, packing=setting).judge(later).kind == "passed"
