"""References that check values are traced past their checks; those whose results depend on values are not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from recipe_bench import reference

from kb.errors import TaskError
from search.costs.trace import operator_graph
from search.costs.value_checks import checks
from search.reference import load_problem
from search.task import Task

N = "torch.randn"
PAST = {
    "an assertion": ("assert (b >= 0).all(), 'negative'\nreturn a * b", ["mul"]),
    "two that raise": (
        "if torch.any(b < 0): raise ValueError('negative')\nif not torch.isfinite(a).all(): raise ValueError('infinite')\n"
        "return torch.relu(a)",
        ["relu"],
    ),
    "what a layer made": (
        "y = self.l(a)\nif torch.isnan(y).any(): raise RuntimeError('no number')\nreturn y",
        ["linear"],
    ),
    "a check of torch's own": (
        "return F.gaussian_nll_loss(a, a * 2, b)",
        ["mul", "clone", "clamp_", "log", "sub", "pow", "div", "add", "mul", "mean"],
    ),
}
DEPENDS = {
    "a branch": "return a * 2 if b.sum() > 0 else a",
    "a branch after a check": "assert (b >= 0).all()\nreturn a * 2 if a.sum() > 0 else a",
    "a branch on a number": "return a * 2 if b.min().item() >= 0 else a",
}


@pytest.mark.parametrize("name", PAST)
def test_checks_are_left_out(name: str, make_task: Callable[..., Task]) -> None:
    body, operators = PAST[name]
    source = reference(body, f"{N}(6, 8)", "torch.rand(6, 8)", init="self.l = nn.Linear(8, 4)")
    graph = operator_graph(load_problem(make_task(source)))
    assert [one.target.split(".")[0] for one in graph.operators] == operators


@pytest.mark.parametrize("name", DEPENDS)
def test_what_depends_on_values_is_refused(name: str, make_task: Callable[..., Task]) -> None:
    problem = load_problem(make_task(reference(DEPENDS[name], f"{N}(6, 8)", "torch.rand(6, 8)")))
    with pytest.raises(TaskError, match="control flow that depends on values"):
        operator_graph(problem)
    assert torch.Tensor.__bool__(torch.ones(1))  # what was put in its place is gone


def test_buffers_stay_as_they_were(make_task: Callable[..., Task]) -> None:
    body = "y = self.n(a)\nassert (b >= 0).all()\nreturn y"
    init = "self.n = nn.BatchNorm1d(8)"
    problem = load_problem(make_task(reference(body, f"{N}(6, 8)", "torch.rand(6, 8)", init=init)))
    state = {name: value.clone() for name, value in problem.model.state_dict().items()}
    assert checks(problem.model, tuple(problem.inputs)) == [True]
    assert all(torch.equal(one, state[name]) for name, one in problem.model.state_dict().items())
