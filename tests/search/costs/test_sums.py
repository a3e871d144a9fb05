import pytest
import torch
from torch import nn

from search.costs.sums import longest_recurrence, longest_sum, terms_of
from search.costs.trace import operator_name, trace


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(8, 16, 3)
        self.group = nn.GroupNorm(4, 16)
        self.batch = nn.BatchNorm2d(16)
        self.linear = nn.Linear(16, 5)
        self.eval()

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = self.batch(self.group(self.conv(x)))
        pooled = nn.functional.adaptive_avg_pool2d(nn.functional.avg_pool2d(y, 2), 1).flatten(1)
        z = self.linear(pooled)
        return z, torch.softmax(z, -1), torch.relu(x)


def test_each_operator_tells_the_terms_of_one_of_its_elements() -> None:
    graph = trace(Convolutions(), (torch.randn(4, 8, 20, 20),))
    told = {operator_name(operator): terms_of(operator, graph) for operator in graph.operators}
    assert told == {
        "conv2d": 8 * 3 * 3,
        "group_norm": 4 * 18 * 18,
        "batch_norm": 1,
        "avg_pool2d": 4,
        "adaptive_avg_pool2d": 9 * 9,
        "flatten": 1,
        "linear": 16,
        "softmax": 5,
        "relu": 1,
    }


def test_an_output_has_the_longest_sum_of_what_it_comes_from() -> None:
    graph = trace(Convolutions(), (torch.randn(4, 8, 20, 20),))
    assert [longest_sum(graph, (name,)) for name in graph.outputs] == [1296, 1296, 1]
    assert longest_sum(graph, graph.outputs) == 1296


class Expression(nn.Module):
    def __init__(self, expression: str) -> None:
        super().__init__()
        self.expression = expression

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return eval(self.expression, {"x": x, "torch": torch, "nn": nn})


@pytest.mark.parametrize(
    ("expression", "terms"),
    [
        ("x.cumsum(1)", 20),
        ("torch.logsumexp(x, (1, 2))", 20 * 30),
        ("x.var((0, 2))", 4 * 30),
        ("x.amax(-1)", 30),
        ("nn.functional.layer_norm(x, (20, 30))", 20 * 30),
        ("nn.functional.scaled_dot_product_attention(x, x, x)", 30),
        ("torch.einsum('bij,bkj->bik', x, x)", 30),
        ("torch.cdist(x, x)", 30),
        ("x @ x.transpose(1, 2)", 30),
        ("nn.functional.mse_loss(x, x + 1)", 4 * 20 * 30),
        ("torch.tanh(x) + 1", 1),
        ("nn.functional.instance_norm(x)", 30),
    ],
)
def test_the_terms_of_a_sum_follow_from_its_dimensions(expression: str, terms: int) -> None:
    graph = trace(Expression(expression), (torch.randn(4, 20, 30),))
    assert longest_sum(graph, graph.outputs) == terms


@pytest.mark.slow
def test_a_recurrent_layer_rounds_its_state_at_every_step() -> None:
    class Layers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gru = nn.GRU(30, 50, 2)

        def forward(self, x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
            return self.gru(x, h)[0]

    graph = trace(Layers(), (torch.randn(20, 4, 30), torch.randn(2, 4, 50)))
    assert longest_recurrence(graph) == 20 * (30 + 50)
    assert longest_recurrence(trace(Expression("x @ x.mT"), (torch.randn(4, 20, 30),))) == 1
