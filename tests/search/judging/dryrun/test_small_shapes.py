from __future__ import annotations

import ast

import pytest
from dry import make_task

from search.judging.dryrun.small_shapes import _constants, plan, specialised, variants
from search.reference import load_problem

CONV = """
import torch
from torch import nn

batch, channels, size = 16, 96, 224
SCALE = 32

class Model(nn.Module):
    def __init__(self, channels, kernels, groups):
        super().__init__()
        self.conv = nn.Conv2d(3, kernels, 11, stride=4)
        self.norm = nn.GroupNorm(groups, kernels)

    def forward(self, x):
        return self.norm(self.conv(x)) * SCALE

def get_inputs():
    return [torch.rand(batch, 3, size, size)]

def get_init_inputs():
    return [3, channels, 8]
"""


def test_sizes_of_inputs_are_found_and_constants_of_the_model_are_not():
    assert _constants(ast.parse(CONV)) == {3, 8, 16, 96, 224}


def test_powers_of_two_stay_powers_of_two():
    changed = plan([4096, 65536], 16, 64)
    assert changed == {4096: 64, 65536: 1024}


def test_a_size_that_fills_no_tile_fills_none_after():
    for size in (1000, 3001, 777):
        small = plan([size], 16, 16)[size]
        assert small < size
        assert small % 16 != 0
        assert small % 2 == size % 2


def test_a_multiple_of_groups_stays_one():
    changed = plan([12, 768], 16, 16)
    assert changed[768] % 12 == 0
    assert changed[768] < 768


def test_different_sizes_stay_different():
    changed = plan([512, 1024, 2048], 16, 64)
    assert len(set(changed.values())) == 3


def test_the_largest_variant_that_can_be_interpreted_comes_first(tmp_path):
    problem = load_problem(
        make_task(tmp_path, CONV.replace("224", "64").replace("16, 96", "2, 96"))
    )
    found = next(iter(variants(problem)))
    small = found.problem
    assert small.inputs[0].numel() < problem.inputs[0].numel()
    assert small.outputs[0].shape[1] % 8 == 0
    assert small.model.norm.num_groups == 8
    assert found.changed[96] == small.outputs[0].shape[1]


def test_a_task_that_is_small_enough_stays_as_it_is(tmp_path):
    source = """
        import torch
        class Model(torch.nn.Module):
            def forward(self, x):
                return torch.relu(x)
        def get_inputs():
            return [torch.randn(40, 50)]
    """
    problem = load_problem(make_task(tmp_path, source))
    found = next(iter(variants(problem)))
    assert found.problem is problem
    assert found.changed == {}


@pytest.mark.parametrize(
    ("source", "size"), [("n = 4096\n", 4096), ("n = 64\n", None), ("n = 4096.0\n", None)]
)
def test_a_size_written_into_a_candidate_is_found(source, size):
    assert specialised(source, {4096: 64}) == size


def test_an_attention_keeps_the_size_that_it_scales_by(tmp_path):
    """A kernel holds the scale as a number: on a smaller head a right one would be wrong."""
    source = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.scaled_dot_product_attention(x, x, x)

def get_inputs():
    return [torch.randn(8, 16, 512, 64)]

def get_init_inputs():
    return []
"""
    first = next(iter(variants(load_problem(make_task(tmp_path, source)))))
    (given,) = first.problem.inputs
    assert given.shape[-1] == 64
    assert given.shape[-2] < 512
    assert 64 not in first.changed


def test_many_sizes_may_become_equal_where_none_is_small_enough_that_keeps_them_apart():
    constants = [3, 10, 11, 12, 20, 21, 22, 23, 24]  # two tensors of five axes
    apart, equal = (plan(constants, 4, 16, divided=False, distinct=one) for one in (True, False))
    assert len({*apart.values()}) == len(apart)
    assert max(equal.values()) < min(20, max(apart.values()))
