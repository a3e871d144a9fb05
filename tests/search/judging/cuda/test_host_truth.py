"""What a GPU takes seconds for, because its library takes small matrices one by one, is found on the host."""

from collections.abc import Callable

import pytest
import torch

from search.judging.tolerance import make_trials
from search.judging.truth.reference import Truth
from search.reference import load_problem
from search.task import Task

pytestmark = pytest.mark.gpu


def test_the_truth_of_many_small_factorisations_is_found_on_the_host(
    make_task: Callable[..., Task],
) -> None:
    if not torch.cuda.is_available():
        pytest.skip("no NVIDIA device here")
    source = "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return torch.linalg.qr(x)\n"
    source += "def get_inputs():\n    return [torch.randn(20000, 5, 5)]\ndef get_init_inputs():\n    return []\n"
    problem = load_problem(make_task(source), device="cuda")
    trials = make_trials(problem, 3)
    assert trials.on_host
    assert all(float((a.high[0] - a.low[0]).amax()) < 1e-2 for a in trials.trials[:3])
    there = Truth(problem)(trials.trials[0].inputs)
    for number, value in enumerate(there):
        assert value.is_cuda
        inside = (value >= trials.trials[0].low[number]) & (value <= trials.trials[0].high[number])
        assert bool(inside.all())
