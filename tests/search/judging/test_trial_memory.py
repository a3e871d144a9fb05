"""How many bytes bounds take at once, counted by the tensors that are alive."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from search import reference
from search.costs.trace import operator_graph
from search.judging import bounds
from search.judging.tolerance import make_trials
from search.judging.truth.reference import Truth
from search.reference import load_problem
from search.task import Task

SOURCE = """
import torch
import torch.nn as nn
class Model(nn.Module):
    def forward(self, x):
        return {forward}
def get_inputs():
    return [{inputs}]
"""


class Alive(TorchDispatchMode):
    """Counts the bytes of tensors that are alive, and the most there were at once; views of what was there before are none."""

    def __init__(self, *before: torch.Tensor) -> None:
        super().__init__()
        self.now = self.most = 0
        self._sizes = {one.untyped_storage()._cdata: 0 for one in before}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(made):
            if isinstance(tensor, torch.Tensor):
                self._count(tensor.untyped_storage())
        return made

    def _count(self, storage: torch.UntypedStorage) -> None:
        key = storage._cdata
        if key not in self._sizes:
            self._sizes[key] = storage.nbytes()
            self.now += storage.nbytes()
            self.most = max(self.most, self.now)
            weakref.finalize(storage, self._gone, key)

    def _gone(self, key: int) -> None:
        self.now -= self._sizes.pop(key)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("forward", "inputs"),
    [
        ("torch.relu(x)", "torch.rand(256, 512)"),
        ("torch.softmax(x, -1)", "torch.rand(256, 512)"),
        ("x / torch.norm(x)", "torch.rand(16, 64, 128)"),
    ],
)
def test_trials_that_are_drawn_again_keep_nothing_and_bounds_take_four_times_the_task(
    forward: str, inputs: str, make_task: Callable[..., Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    # As small a part of the task as pieces are of tasks of gigabytes.
    monkeypatch.setattr(bounds, "_ROWS", 1 << 13)
    monkeypatch.setattr(bounds, "_PIECE", 1 << 11)
    problem = load_problem(make_task(SOURCE.format(forward=forward, inputs=inputs)))
    task = 2 * problem.inputs[0].nbytes
    graph = operator_graph(problem)  # of tensors without memory, which would count
    with Alive(problem.inputs[0]) as alive:
        trial_set = make_trials(problem, 1, room=0, graph=graph)
    assert len(trial_set.trials) > 8
    assert alive.most < 4.5 * task
    trial_set.forget()
    assert alive.now < 0.5 * task


@pytest.mark.slow
@pytest.mark.parametrize("forward", ["torch.relu(x)", "torch.softmax(x, -1)"])
def test_measuring_some_rows_at_a_time_takes_twice_the_task(
    forward: str, make_task: Callable[..., Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "_ROWS", 1 << 13)
    monkeypatch.setattr(bounds, "_PIECE", 1 << 11)
    problem = load_problem(make_task(SOURCE.format(forward=forward, inputs="torch.rand(256, 512)")))
    answered = Truth.__call__

    def full(self: Truth, given: tuple[torch.Tensor, ...], *how: object) -> object:
        if len(given[0]) == 256:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return answered(self, given, *how)  # type: ignore[arg-type] - as it was called

    monkeypatch.setattr(Truth, "__call__", full)
    monkeypatch.setattr(bounds, "_TABLES", 16)  # a megabyte, whatever the task
    graph = operator_graph(problem)
    with Alive(problem.inputs[0]) as alive:
        trial_set = make_trials(problem, 1, room=0, graph=graph)
    assert trial_set.cut is not None
    assert alive.most < 1.75 * (2 * problem.inputs[0].nbytes)


@pytest.mark.parametrize("forward", ["torch.relu(x)", "x / torch.norm(x, dim=1, keepdim=True)"])
def test_loading_a_reference_takes_twice_the_task(
    forward: str, make_task: Callable[..., Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reference, "_PIECE", 1 << 11)
    task = make_task(SOURCE.format(forward=forward, inputs="torch.rand(256, 512)"))
    with Alive() as alive:
        problem = load_problem(task)
    assert alive.most < 2.05 * (2 * problem.inputs[0].nbytes)
