from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from traced import reference_of, traced

from kb.errors import TaskError
from search.costs.graph import OperatorGraph, Ref
from search.costs.trace import family, operator_graph, operator_name
from search.costs.work import count_work

Trace = Callable[..., OperatorGraph]


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    return lambda init, forward, inputs: traced(tmp_path, forward, inputs, init)


def test_composite_operators_stay_whole_and_parameters_keep_their_paths(trace: Trace) -> None:
    graph = trace(
        "self.body = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))",
        "return self.body(x)",
        "torch.rand(2, 3, 8, 8)",
    )
    assert [operator_name(operator) for operator in graph.operators] == [
        "conv2d",
        "relu",
        "max_pool2d",
    ]
    assert {value.origin: value.shape for value in graph.values} == {
        "body.0.weight": (8, 3, 3, 3), "body.0.bias": (8,), "0": (2, 3, 8, 8),
    }  # fmt: skip
    assert graph.operators[1].args == (Ref(graph.operators[0].name),)
    assert graph.shape(graph.outputs[0]) == (2, 8, 4, 4)
    assert graph.single_output


def test_a_reference_is_traced_once_for_the_same_layout_of_inputs(tmp_path: Path) -> None:
    problem = reference_of(tmp_path, "return torch.relu(x)", "torch.rand(4, 8)")
    graph = operator_graph(problem)
    assert operator_graph(replace(problem, inputs=(torch.rand(4, 8),))) is graph
    wider = operator_graph(replace(problem, inputs=(torch.rand(4, 9),)))
    assert wider.shape(wider.outputs[0]) == (4, 9)


def test_work_counts_products_exactly_and_intermediates_as_traffic(trace: Trace) -> None:
    conv = trace(
        "self.c = nn.Conv2d(4, 8, 3, groups=2, bias=False)",
        "return torch.relu(self.c(x))",
        "torch.rand(1, 4, 10, 10)",
    )
    work = count_work(conv)
    assert work.flops == 2 * (8 * 8 * 8) * (2 * 9) + 8 * 8 * 8
    assert work.bytes == 4 * (400 + 8 * 2 * 9 + 512)
    assert work.traffic == work.bytes + 4 * (2 * 512)
    assert set(work.families) == {"convolution", "elementwise"}

    linear = trace("self.l = nn.Linear(32, 16)", "return self.l(x)", "torch.rand(5, 32)")
    assert count_work(linear).flops == 2 * 5 * 16 * 32
    batched = trace("pass", "return torch.bmm(x, y)", "torch.rand(3, 4, 5), torch.rand(3, 5, 6)")
    assert count_work(batched).flops == 2 * 3 * 4 * 5 * 6


def test_views_cost_nothing(trace: Trace) -> None:
    work = count_work(trace("pass", "return x.t().reshape(6, 2) + 1", "torch.rand(3, 4)"))
    assert work.families == ("elementwise",)
    assert work.traffic == work.bytes == 2 * 4 * 12


def test_several_outputs_and_scalar_inputs_are_kept_apart(trace: Trace) -> None:
    graph = trace("pass", "return x * y, x.softmax(-1)", "torch.rand(3, 4), 2.5")
    assert not graph.single_output
    assert len(graph.outputs) == 2
    assert [value.kind for value in graph.values] == ["input"]
    assert 2.5 in graph.operators[0].args
    assert {family(operator) for operator in graph.operators} == {"elementwise", "softmax"}


def test_small_constants_carry_their_elements(trace: Trace) -> None:
    graph = trace("self.k = torch.tensor([1.0, 2.0])", "return x * self.k", "torch.rand(3, 2)")
    (constant,) = [value for value in graph.values if value.kind == "constant"]
    assert constant.data == (1.0, 2.0)


def test_constants_of_whole_numbers_are_exact(trace: Trace) -> None:
    graph = trace("pass", "return x + torch.tensor([2**53 + 1, -1])", "torch.rand(3, 2)")
    assert [value.data for value in graph.values if value.kind == "constant"] == [(2**53 + 1, -1)]


def test_a_constant_that_is_no_attribute_has_no_place(trace: Trace) -> None:
    init = "self.one = torch.rand(2000); self.more = [torch.rand(2000)]"
    graph = trace(init, "return x * self.one + self.more[0]", "torch.rand(3, 2000)")
    places = [value.origin for value in graph.values if value.kind == "constant"]
    assert sorted(places) == ["", "one"]


def test_control_flow_on_values_is_told_in_one_line(trace: Trace) -> None:
    with pytest.raises(TaskError, match="cannot trace the forward") as caught:
        trace("pass", "return x + 1 if x.sum() > 0 else x - 1", "torch.rand(3)")
    assert "\n" not in str(caught.value)


REGIONS = {
    "gradients": "with torch.enable_grad():\n            y = torch.exp(x)\n            z = torch.sin(y)",
    "gradients within none": "with torch.enable_grad(), torch.no_grad(), torch.enable_grad():\n            y = torch.exp(x)\n        z = y.sin()",
    "inference": "with torch.inference_mode():\n            y = torch.exp(x)\n        z = torch.sin(y)",
    "no conversion": "with torch.autocast('cpu', enabled=False):\n            y = torch.exp(x)\n            z = y.sin()",
}  # fmt: skip


@pytest.mark.parametrize("region", REGIONS)
def test_regions_that_change_nothing_are_written_out(trace: Trace, region: str) -> None:
    graph = trace("pass", f"{REGIONS[region]}\n        return y, z + x", "torch.rand(3, 4)")
    assert [one.target for one in graph.operators] == ["exp.default", "sin.default", "add.Tensor"]
    first, second, third = graph.operators
    assert second.args == (Ref(first.name),)
    assert third.args == (Ref(second.name), Ref("x"))
    assert graph.outputs == (first.name, third.name)
