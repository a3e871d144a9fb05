"""What tensor cores round inside a network is within the bounds of TF32, and nothing shorter is."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from search.judging.tolerance import make_trials
from search.judging.truth.reference import ROUNDINGS
from search.judging.truth.rounded import RoundedOperands
from search.reference import Problem, load_problem
from search.task import Task

# What the first operator answers has three bits more than its operands, the same three everywhere; they are all that is
# left of what the second adds up.
FINE = """
import torch
import torch.nn.functional as F
class Model(torch.nn.Module):
    def forward(self, x):
        bias = torch.tensor([3 * 2.0**-13, -0.5])
        {}
def get_inputs():
    return [torch.rand({})]
"""
NETWORKS = {
    "convolutions": FINE.format(
        """x = torch.relu(F.conv2d(x, torch.ones(2, 1, 1, 1), bias))
        weight = torch.tensor([0.0625, -0.0625]).view(1, 2, 1, 1).repeat(1, 1, 4, 4)
        return F.conv2d(x, weight, torch.tensor([-0.5]))""", "4, 1, 24, 24"
    ),
    "products": FINE.format(
        """x = torch.relu(F.linear(x, torch.eye(16).repeat(2, 1), bias.repeat_interleave(16)))
        weight = torch.tensor([0.0625, -0.0625]).repeat_interleave(16).view(1, 32)
        return F.linear(x, weight, torch.tensor([-0.5]))""", "2000, 16"
    ),
}  # fmt: skip
LAYERS = """
import torch
import torch.nn as nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = {}
    def forward(self, x):
        return self.b(torch.relu(self.a(x)))
def get_inputs():
    return [torch.rand({})]
"""
DRAWN = {
    "convolutions": LAYERS.format("nn.Conv2d(3, 6, 1), nn.Conv2d(6, 32, 3)", "4, 3, 24, 24"),
    "products": LAYERS.format("nn.Linear(8, 12), nn.Linear(12, 64)", "400, 8"),
}


def network(make_task: Callable[..., Task], source: str) -> Problem:
    task = make_task(source)
    settings = task.settings.model_copy(update={"precision": "tf32"})
    return load_problem(replace(task, settings=settings))


def beyond(problem: Problem, rounding: Callable[[torch.Tensor], torch.Tensor]) -> int:
    """Return how many elements of all trials are out of bounds where operands are rounded."""
    count = 0
    for seed in (0, 1000, 2000):
        for trial in make_trials(problem, seed=seed).trials:
            bounds = trial.recall()
            with RoundedOperands(rounding, products=True), torch.no_grad():
                (got,) = problem.run(*bounds.inputs)
            count += int(((got < bounds.low[0]) | (got > bounds.high[0])).sum())
    return count


@pytest.mark.parametrize("name", list(NETWORKS))
@pytest.mark.parametrize("rounding", ROUNDINGS["tf32"])
def test_operands_that_tensor_cores_round_are_within_bounds(
    make_task: Callable[..., Task], name: str, rounding: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    assert beyond(network(make_task, NETWORKS[name]), rounding) == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", list(DRAWN))
def test_bfloat16_is_beyond_them(make_task: Callable[..., Task], name: str) -> None:
    assert beyond(network(make_task, DRAWN[name]), lambda x: x.bfloat16().float()) > 100


def test_products_are_left_alone_where_the_framework_leaves_them() -> None:
    a, b = torch.rand(5, 7), torch.rand(7, 3)
    image, kernel = torch.rand(1, 2, 6, 6), torch.rand(3, 2, 3, 3)
    coarse, _ = ROUNDINGS["tf32"]
    with RoundedOperands(coarse, products=False):
        product, convolved = a @ b, torch.conv2d(image, kernel)
    assert torch.equal(product, a @ b)
    assert torch.equal(convolved, torch.conv2d(coarse(image), coarse(kernel)))
