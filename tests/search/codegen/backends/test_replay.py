"""Candidates that capture their launches: what the file says, and when it is proposed."""

from __future__ import annotations

import types

import pytest
import torch
from recipe_bench import Bench, load, reference

from kb.app.queries import find_target
from search.codegen.backends.replay import launch_bound, replayed

SOURCE = """
import torch
class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(3)
        self.weight = torch.nn.Parameter(torch.ones(3))
    def forward(self, x, factor=2.0):
        return self.norm(x) * self.weight * factor
"""


class Recorder:
    """A device on which a replay computes again what was captured."""

    def __init__(self) -> None:
        self.captures = 0
        self.buffers: tuple[torch.Tensor, ...] = ()

    def modules(self, compute) -> types.SimpleNamespace:
        recorder = self

        class Graph:
            def replay(self) -> None:
                # A device writes without torch's knowing it.
                with torch.autograd._unsafe_preserve_version_counter(recorder.buffers):
                    recorder.results.copy_(compute(*recorder.held))

        class Capture:
            def __init__(self, graph: Graph) -> None:
                recorder.captures += 1

            def __enter__(self) -> None: ...

            def __exit__(self, *_: object) -> None: ...

        return types.SimpleNamespace(CUDAGraph=Graph, graph=Capture, synchronize=lambda: None)


def played(monkeypatch, source: str = SOURCE) -> tuple[torch.nn.Module, Recorder]:
    """Return a candidate whose graphs compute again, and what counts them."""
    model, recorder = load(replayed(source)).ModelNew(), Recorder()
    plain = model._computed

    def compute(*given: torch.Tensor) -> torch.Tensor:
        recorder.held, recorder.results = given, plain(*given)
        return recorder.results

    model._computed = compute
    recorder.buffers = tuple(model.buffers())
    cuda = recorder.modules(plain)
    for name in ("CUDAGraph", "graph", "synchronize"):
        monkeypatch.setattr(torch.cuda, name, getattr(cuda, name))
    return model, recorder


def test_each_call_answers_its_own_inputs_in_a_tensor_of_its_own(monkeypatch) -> None:
    model, recorder = played(monkeypatch)
    one, other = torch.randn(5, 3), torch.randn(5, 3)
    with torch.no_grad():
        first, second, again = model(one, 2.0), model(other, 2.0), model(one, 2.0)
        expected = load(SOURCE).ModelNew()(other, 2.0)
    assert recorder.captures == 1
    assert torch.equal(first, again)
    assert torch.equal(second, expected)
    assert len({first.data_ptr(), second.data_ptr(), again.data_ptr()}) == 3


def test_a_weight_that_changed_is_captured_again(monkeypatch) -> None:
    model, recorder = played(monkeypatch)
    x = torch.randn(5, 3)
    with torch.no_grad():
        before = model(x, 2.0)
        model.weight.mul_(3)
        after = model(x, 2.0)
    assert recorder.captures == 2
    assert torch.allclose(after, 3 * before)


def test_what_is_counted_in_buffers_is_counted_once_a_call(monkeypatch) -> None:
    model, _ = played(monkeypatch)
    with torch.no_grad():
        model(torch.randn(5, 3), 2.0)
    assert model.norm.num_batches_tracked == 1


@pytest.mark.slow
def test_launches_dominate_where_operators_are_many_and_small() -> None:
    target = find_target("h200")
    body = "for _ in range(20):\n    a = torch.tanh(self.l(a))\nreturn a"
    small = reference(body, "torch.randn(4, 64)", init="self.l = nn.Linear(64, 64)")
    large = reference(body, "torch.randn(8192, 1024)", init="self.l = nn.Linear(1024, 1024)")
    middle = reference(body, "torch.randn(2048, 1024)", init="self.l = nn.Linear(1024, 1024)")
    assert launch_bound(Bench(small, {}).graph, target)
    assert launch_bound(Bench(middle, {}).graph, target), "on tensor cores"
    assert not launch_bound(Bench(large, {}).graph, target)


def test_another_tensor_in_an_attribute_is_captured_again_and_an_equal_input_is_not(
    monkeypatch,
) -> None:
    plain = SOURCE.replace(
        "        self.norm", "        self.scale = torch.ones(3)\n        self.norm"
    )
    model, recorder = played(monkeypatch, plain.replace("* factor", "* factor * self.scale"))
    given = torch.randn(5, 3)
    with torch.no_grad():
        before = model(given)
        model.scale = torch.full((3,), 3.0)
        assert torch.equal(model(given), 3 * before)
        assert recorder.captures == 2
        model(given.double().float())
        assert recorder.captures == 2
