"""What rounding turns over passes, wherever it does; what is wrong in as few places does not."""

from collections.abc import Callable

import pytest
import torch

from search.judging import disputed
from search.judging.disputed import is_right
from search.judging.tolerance import make_trials
from search.judging.trial import InputTrial, TrialSet, inside
from search.reference import Problem, load_problem
from search.task import Task

SOURCE = """
import torch
import torch.nn as nn
class Model(nn.Module):
    def forward(self, q, k, v):
        return torch.softmax(q @ k.transpose(-1, -2), -1) @ v
def get_inputs():
    return [torch.randn(64, 512, 64), torch.randn(64, 64, 64), torch.randn(64, 64, 16)]
"""
ORDER = torch.randperm(64, generator=torch.Generator().manual_seed(1))
SEED = 4  # of which an honest answer is beyond the bounds that few answers gave


def honest(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Return the reference's answer with the products' terms added in another order."""
    scores = q[..., ORDER].contiguous() @ k[..., ORDER].contiguous().transpose(-1, -2)
    return torch.softmax(scores, -1) @ v


@pytest.fixture(scope="module")
def problem(make_task: Callable[..., Task]) -> Problem:
    return load_problem(make_task(SOURCE))


@pytest.fixture(scope="module")
def beyond(problem: Problem) -> tuple[Problem, TrialSet, InputTrial]:
    trial_set = make_trials(problem, SEED)  # takes seconds
    trial = next(t for t in trial_set.trials if not inside(t, (honest(*t.inputs),)))
    return problem, trial_set, trial


Rows = Callable[[torch.Tensor, InputTrial], None]


def a_thousandth_more(rows: torch.Tensor, trial: InputTrial) -> None:
    rows[7] *= 1.001


def another_value(rows: torch.Tensor, trial: InputTrial) -> None:
    rows[5] = trial.inputs[2].reshape(-1, rows.shape[1])[33]


def half_precision(rows: torch.Tensor, trial: InputTrial) -> None:
    rows[:300] = honest(*(x.half().float() for x in trial.inputs)).reshape(-1, 16)[:300]


@pytest.mark.slow
def test_another_order_of_the_same_sums_passes(
    problem: Problem, beyond: tuple[Problem, TrialSet, InputTrial]
) -> None:
    found = []
    for seed, trial_set in ((0, make_trials(problem, 0)), (SEED, beyond[1])):
        for trial in trial_set.trials:
            answer = honest(*trial.inputs)
            if not inside(trial, (answer,)):
                found.append(seed)
                assert int(trial.wrong(0, (answer,)).sum()) < answer.numel() / 500
            assert is_right(problem, trial_set, trial, (answer,)), (seed, trial.distribution)
    assert SEED in found  # by the first look alone it would be refused


@pytest.mark.slow
@pytest.mark.parametrize("spoil", [a_thousandth_more, another_value, half_precision])
def test_few_rows_that_are_wrong_do_not(
    spoil: Rows, beyond: tuple[Problem, TrialSet, InputTrial]
) -> None:
    problem, trial_set, trial = beyond
    answer = honest(*trial.inputs)
    spoil(answer.reshape(-1, 16), trial)
    assert not is_right(problem, trial_set, trial, (answer,))


def test_what_is_exact_is_not_looked_at_twice(make_task: Callable[..., Task]) -> None:
    source = SOURCE.replace("torch.softmax(q @ k.transpose(-1, -2), -1) @ v", "q @ k + v > 0")
    source = (
        source.replace("64, 512, 64", "8, 4, 64")
        .replace("64, 64, 64", "8, 64, 4")
        .replace("64, 64, 16", "8, 4, 4")
    )
    problem = load_problem(make_task(source))
    trial_set = make_trials(problem, 1)
    trial = trial_set.trials[0]
    answer = trial.answer(0).clone()
    assert is_right(problem, trial_set, trial, (answer,))
    answer[0, 0, 0] = ~answer[0, 0, 0]
    assert not is_right(problem, trial_set, trial, (answer,))


KALMAN = """
import torch
import torch.nn as nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.h = nn.Parameter(torch.randn(2, 4))
    def forward(self, p, y):
        s = self.h @ p @ self.h.t() + 0.2 * torch.eye(2)
        gain = p @ self.h.t() @ torch.linalg.inv(s)
        return p - gain @ self.h @ p, (gain @ y.unsqueeze(-1)).squeeze(-1)
def get_inputs():
    return [torch.eye(4).repeat(5000, 1, 1), torch.randn(5000, 2)]
"""


@pytest.mark.slow
def test_an_inverse_that_one_large_input_makes_nearly_singular_is_right(
    make_task: Callable[..., Task],
) -> None:
    problem = load_problem(make_task(KALMAN))
    h = problem.state["h"]

    def exact(p: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        s = h @ p @ h.t() + 0.2 * torch.eye(2)
        gain = p @ h.t() @ torch.linalg.inv(s.double()).float()
        return p - gain @ h @ p, (gain @ y.unsqueeze(-1)).squeeze(-1)

    beyond = 0
    for seed in range(40):
        trial_set = make_trials(problem, seed)
        for trial in trial_set.trials:
            if trial.distribution == "spiked far":
                answer = exact(*trial.inputs)
                beyond += not inside(trial, answer)
                assert is_right(problem, trial_set, trial, answer), seed
                spoilt = (answer[0], answer[1] * (1 + 1e-3))
                assert not is_right(problem, trial_set, trial, spoilt)
    assert beyond  # by the first look alone some would be refused


SQUARES = """
import torch
class Model(torch.nn.Module):
    def forward(self, q, k, v):
        scores = torch.relu(q @ k.transpose(-1, -2) * 0.125)
        return torch.tril(scores * scores) * (1.0 / 512) @ v
def get_inputs():
    return [torch.randn(2, 8, 512, 64).bfloat16() for _ in range(3)]
"""


def squares(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Return what matrix units give: sums in float32, weights rounded once between the products."""
    scores = torch.relu(q.float() @ k.float().transpose(-1, -2) * 0.125)
    weights = (torch.tril(scores * scores) * (1.0 / 512)).bfloat16()
    return (weights.float() @ v.float()).bfloat16()


@pytest.mark.slow
def test_what_two_bytes_round_in_between_is_right_in_the_few_elements_that_cancel(
    make_task: Callable[..., Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = load_problem(make_task(SQUARES))
    trial_set = make_trials(problem, 1)
    (trial,) = (t for t in trial_set.trials if not inside(t, (squares(*t.inputs),)))
    answer = squares(*trial.inputs)
    assert int(trial.wrong(0, (answer,)).sum()) == 1  # of 524,288
    assert is_right(problem, trial_set, trial, (answer,))
    for spoil in (
        eight_bits,
        eight_bits_in_some_rows,
        nothing_at_one,
        another_at_one,
        a_third_more_at_two,
    ):
        spoiled = answer.clone()
        spoil(spoiled.reshape(-1, 64), trial)
        assert not is_right(problem, trial_set, trial, (spoiled,)), spoil.__name__
    monkeypatch.setattr("search.judging.disputed._half_unit", lambda _: 0.0)
    # As float32's roundings go, it is not.
    assert not is_right(problem, trial_set, trial, (answer,))


def nothing_at_one(rows: torch.Tensor, trial: InputTrial) -> None:
    rows.view(-1)[rows.abs().argmax()] = 0


def another_at_one(rows: torch.Tensor, trial: InputTrial) -> None:
    rows.view(-1)[rows.abs().argmax()] = rows[7, 7] + rows.abs().mean()


def a_third_more_at_two(rows: torch.Tensor, trial: InputTrial) -> None:
    rows.view(-1)[rows.abs().view(-1).topk(2).indices] *= 1.33


def eight_bits(rows: torch.Tensor, trial: InputTrial) -> None:
    """Put weights of eight bits into all rows: one element in a thousand is beyond its bounds."""
    q, k, v = (x.float() for x in trial.inputs)
    scores = torch.relu(q @ k.transpose(-1, -2) * 0.125)
    weights = torch.tril(scores * scores)
    most = weights.amax(-1, keepdim=True).clamp(min=1e-30) / 200
    made = ((weights / most).to(torch.float8_e4m3fn).float() * most / 512 @ v).bfloat16()
    rows.copy_(made.reshape(-1, 64))


def eight_bits_in_some_rows(rows: torch.Tensor, trial: InputTrial) -> None:
    whole = rows.clone()
    eight_bits(whole, trial)
    rows[300:900] = whole[300:900]


@pytest.mark.parametrize(
    ("columns", "wrong", "few"),
    [(2048, 8, True), (2048, 9, False), (512, 3, True), (512, 4, False), (200, 3, False)],
)
def test_whole_columns_are_a_handful_where_they_are_one_in_256_or_three(
    columns: int, wrong: int, few: bool
) -> None:
    spoiled = torch.zeros(32, columns, dtype=torch.bool)
    spoiled[:, 5 : 5 + wrong] = True
    assert disputed._is_handful(spoiled) is few
    assert disputed._is_handful(spoiled.T) is few


def test_near_is_six_times_as_far_off_as_allowed_between_bounds_that_are_numbers() -> None:
    values = torch.tensor([5.9, 6.1, -5.9, -6.1, torch.nan, torch.inf, 0.0, 0.0])
    low, high = torch.full((8,), -1.0), torch.full((8,), 1.0)
    high[6], wrong = torch.inf, torch.ones(8, dtype=torch.bool)
    wrong[7] = False
    far = disputed._far(values, low, high, wrong)
    assert far.tolist() == [False, True, False, True, True, True, True, False]


PRECISIONS = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.rand(16).{scale})
    def forward(self, x):
        return x * self.scale.to(x.dtype)
def get_inputs():
    return [torch.randn(8, 16).{x}]
"""


@pytest.mark.parametrize(
    ("x", "scale", "unit"),
    [
        ("bfloat16()", "float()", 2.0**16),
        ("half()", "bfloat16()", 2.0**13),
        ("float()", "bfloat16()", 0.0),
    ],
)
def test_half_a_unit_is_that_of_what_most_elements_have(
    make_task: Callable[..., Task], x: str, scale: str, unit: float
) -> None:
    problem = load_problem(make_task(PRECISIONS.format(x=x, scale=scale)))
    assert disputed._half_unit(problem) == unit


GATED = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter((torch.randn(1024, 512) / 512**0.5).bfloat16())
        self.shift = torch.nn.Parameter(torch.randn(1024))
    def forward(self, x):
        made = x @ self.weight.T + self.shift.to(x.dtype)
        return torch.nn.functional.gelu(made, approximate="tanh")
def get_inputs():
    return [torch.randn(1024, 512).bfloat16()]
"""


@pytest.mark.slow
def test_a_sum_that_cancels_behind_a_rounded_product_is_right_though_far_off(
    make_task: Callable[..., Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = load_problem(make_task(GATED))
    weight, shift = problem.state["weight"].float(), problem.state["shift"]
    beyond = []
    for seed in range(3):
        trial_set = make_trials(problem, seed)
        for trial in trial_set.trials:
            made = trial.inputs[0].float() @ weight.T + shift.bfloat16().float()
            answer = torch.nn.functional.gelu(made, approximate="tanh").bfloat16()
            if not inside(trial, (answer,)):
                assert is_right(problem, trial_set, trial, (answer,)), (seed, trial.distribution)
                wrong = trial.wrong(0, (answer,))
                if disputed._far(answer, trial.low[0], trial.high[0], wrong).any():
                    beyond.append((trial_set, trial, answer))
    assert beyond  # by nearness alone these would be refused
    trial_set, trial, answer = beyond[0]
    spoiled = answer.clone()
    spoiled.view(-1)[spoiled.abs().argmax()] *= 1.33
    assert not is_right(problem, trial_set, trial, (spoiled,))
    monkeypatch.setattr(disputed, "_half_unit", lambda _: 0.0)
    assert not is_right(problem, trial_set, trial, (answer,))


CROSS = """
import torch
from torch import nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(512).bfloat16() + 0.5)
        self.weight = nn.Parameter((torch.randn(512, 512) / 512**0.5).bfloat16())
        self.bias = nn.Parameter(torch.randn(512).bfloat16())
    def forward(self, x):
        wide = x.float()
        normal = wide * torch.rsqrt((wide * wide).mean(-1, keepdim=True) + 1e-5) * self.scale.float()
        return x * (normal.to(x.dtype) @ self.weight.T + self.bias) + x
def get_inputs():
    return [torch.randn(300, 512).bfloat16()]
"""


@pytest.mark.slow
def test_a_scale_that_is_rounded_into_the_weights_is_right_in_the_one_column_that_cancels(
    make_task: Callable[..., Task],
) -> None:
    problem = load_problem(make_task(CROSS))
    weights = problem.state["weight"].float() * problem.state["scale"].float()
    least = weights.abs().amax(1, keepdim=True) / 127
    bytes_each = (weights / least).round() * least

    def folded(x: torch.Tensor, weights: torch.Tensor) -> tuple[torch.Tensor]:
        wide = x.float()
        lengths = torch.rsqrt((wide * wide).mean(-1, keepdim=True) + 1e-5)
        made = lengths * (wide @ weights.T) + problem.state["bias"].float()
        return ((wide * made + wide).bfloat16(),)

    trial_set = make_trials(problem, 1)
    columns = set()
    for trial in trial_set.trials:
        answer = folded(trial.inputs[0], weights.bfloat16().float())
        columns |= {(trial.distribution, one.item()) for one in trial.wrong(0, answer).sum(1)}
        assert is_right(problem, trial_set, trial, answer), trial.distribution
    assert ("large negative mean", 1) in columns  # one column of every row
    refused = [
        trial.distribution
        for trial in trial_set.trials
        if not is_right(problem, trial_set, trial, folded(trial.inputs[0], bytes_each))
    ]
    assert {"large mean", "large negative mean"} <= {*refused}
