"""How far off an answer may be: what rounding does passes, what leaves work out does not."""

import copy
from collections.abc import Callable

import numpy as np
import pytest
import torch

from search.judging import bounds
from search.judging.bounds import count_moved, growth, measured_slack, pieces, unsettled
from search.judging.checks import near
from search.judging.inputs import draw
from search.judging.tolerance import bounds_of, make_trials
from search.judging.trial import TrialSet, inside
from search.reference import Problem, load_problem
from search.task import Task

SOURCE = """
import torch
import torch.nn as nn
class Model(nn.Module):
    def forward(self, {names}):
        return {forward}
def get_inputs():
    return [{inputs}]
"""
Answer = Callable[..., torch.Tensor]
Tasks = Callable[..., Task]


@pytest.fixture(scope="module")
def banked(make_task: Tasks) -> Callable[..., tuple[Problem, TrialSet]]:
    """Return a task with its trials; the same task is bounded once."""
    made: dict[tuple[object, ...], tuple[Problem, TrialSet]] = {}

    def get(
        forward: str, inputs: str, names: str = "x", precision: object = "strict"
    ) -> tuple[Problem, TrialSet]:
        key = (forward, inputs, names, str(precision))
        if key not in made:
            source = SOURCE.format(forward=forward, inputs=inputs, names=names)
            problem = load_problem(make_task(source, precision=precision))
            made[key] = problem, make_trials(problem, 3)
        return made[key]

    return get


def refusing(trial_set: TrialSet, answer: Answer) -> list[str]:
    return [t.distribution for t in trial_set.trials if not inside(t, (answer(*t.inputs),))]


def in_order(x: torch.Tensor) -> torch.Tensor:
    """Sums of rows with one float32 accumulator."""
    return torch.from_numpy(np.cumsum(x.numpy(), -1, dtype=np.float32)[..., -1:].copy())


def product_in_order(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    done = torch.zeros(x.shape[0], y.shape[1])
    for k in range(x.shape[1]):
        done += x[:, k : k + 1] * y[k]
    return done


def norm_in_order(x: torch.Tensor) -> torch.Tensor:
    middle = x - in_order(x) / x.shape[-1]
    return middle / torch.sqrt(in_order(middle * middle) / x.shape[-1] + 1e-5)


def softmax_in_order(x: torch.Tensor) -> torch.Tensor:
    powers = torch.exp(x - x.amax(-1, keepdim=True))
    return powers / in_order(powers)


def factors_in_order(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(np.cumprod(x.numpy(), -1, dtype=np.float32))


def without(answer: Answer, share: float) -> Answer:
    """Leave the smallest elements out."""

    def given(*inputs: torch.Tensor) -> torch.Tensor:
        full = answer(*inputs)
        least = full.abs().flatten().kthvalue(int(share * full.numel()))[0]
        return torch.where(full.abs() <= least, 0.0, full)

    return given


ROWS = "torch.randn(64, 4096)"
LOOPS = {
    "softmax": ("torch.softmax(x, -1)", ROWS, "x", softmax_in_order),
    "layer norm": ("nn.functional.layer_norm(x, x.shape[-1:])", ROWS, "x", norm_in_order),
    "cumsum": ("x.cumsum(-1)", ROWS, "x", lambda x: torch.from_numpy(np.cumsum(x.numpy(), -1, dtype=np.float32))),
    "sum": ("x.sum(-1, keepdim=True)", ROWS, "x", in_order),
    "cumprod": ("x.cumprod(-1)", "torch.randn(64, 2000)", "x", factors_in_order),
    "product": ("x @ y", "torch.randn(48, 2048), torch.randn(2048, 48)", "x, y", product_in_order),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", LOOPS)
def test_one_float32_accumulator_is_enough_for_a_sum_of_ordinary_length(
    banked: Callable[..., tuple[Problem, TrialSet]], name: str
) -> None:
    forward, inputs, names, loop = LOOPS[name]
    _, trial_set = banked(forward, inputs, names)
    assert refusing(trial_set, loop) == []


ROW = "torch.randn(64, 512)"
SAME = {
    "sigmoid by tanh": ("torch.sigmoid(x)", lambda x: 0.5 * torch.tanh(0.5 * x) + 0.5),
    "softplus without log1p": (
        "nn.functional.softplus(x)",
        lambda x: torch.where(x > 20, x, torch.log(1 + torch.exp(x.clamp(max=20)))),
    ),
    "a power by squaring": ("torch.exp(4 * x)", lambda x: torch.exp(x) ** 4),
    "gelu by erf": ("nn.functional.gelu(x)", lambda x: 0.5 * x * (1 + torch.erf(x * 0.70710678))),
}


@pytest.mark.parametrize("name", SAME)
def test_another_formula_for_the_same_function_is_right(
    banked: Callable[..., tuple[Problem, TrialSet]], name: str
) -> None:
    forward, answer = SAME[name]
    problem, trial_set = banked(forward, ROW)
    assert refusing(trial_set, answer) == []
    drawn = problem.draw(99)
    assert near((answer(*drawn),), problem.run(*drawn), trial_set)


@pytest.mark.parametrize("share", [0.1, 0.25])
@pytest.mark.parametrize(
    ("forward", "answer"),
    [
        ("torch.exp(4 * x)", lambda x: torch.exp(4 * x)),
        ("torch.softmax(x, -1)", lambda x: torch.softmax(x, -1)),
        ("x * torch.exp(-x * x)", lambda x: x * torch.exp(-x * x)),
    ],
)
def test_small_elements_may_not_be_left_out_for_the_sake_of_large_ones(
    banked: Callable[..., tuple[Problem, TrialSet]], forward: str, answer: Answer, share: float
) -> None:
    problem, trial_set = banked(forward, ROW)
    assert "normal" in refusing(trial_set, without(answer, share))
    drawn = problem.draw(99)
    assert not near((without(answer, share)(*drawn),), problem.run(*drawn), trial_set)
    assert near((answer(*drawn),), problem.run(*drawn), trial_set)


@pytest.mark.parametrize("computed", [100, 128, 500])
def test_factors_that_are_left_out_where_products_vanish_are_missed_near_one(
    banked: Callable[..., tuple[Problem, TrialSet]], computed: int
) -> None:
    _, trial_set = banked("x.cumprod(-1)", "torch.randn(64, 2000)")

    def few(x: torch.Tensor) -> torch.Tensor:
        done = torch.zeros_like(x)
        done[:, :computed] = x[:, :computed].cumprod(-1)
        return done

    assert "near one" in refusing(trial_set, few)


def test_rows_of_small_values_count_beside_rows_of_large_ones(
    banked: Callable[..., tuple[Problem, TrialSet]],
) -> None:
    scales = "torch.logspace(-8, 8, 64)[:, None]"
    _, trial_set = banked(f"x @ y * {scales}", "torch.randn(64, 256), torch.randn(256, 96)", "x, y")

    def answer(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return product_in_order(x, y) * torch.logspace(-8, 8, 64)[:, None]

    def without_rows(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        done = answer(x, y)
        done[:8] = 0
        return done

    assert refusing(trial_set, answer) == []
    assert len(refusing(trial_set, without_rows)) == len(trial_set.trials)


def to_bits(x: torch.Tensor, lost: int, *, cut: bool) -> torch.Tensor:
    """Leave `lost` bits of the mantissa out, rounded or cut off."""
    bits = x.contiguous().view(torch.int32)
    if not cut:
        bits = bits + (1 << (lost - 1))
    return (bits & ~((1 << lost) - 1)).view(torch.float32)


@pytest.mark.parametrize(
    ("rounding", "right"),
    [
        (lambda x: x, True),
        (lambda x: to_bits(x, 13, cut=False), True),
        (lambda x: to_bits(x, 13, cut=True), True),
        (lambda x: x.bfloat16().float(), False),
        (lambda x: x.half().float(), False),
    ],
    ids=["float32", "tf32", "tf32 cut off", "bfloat16", "float16"],
)
def test_tf32_is_told_from_bfloat16_and_from_float16(
    banked: Callable[..., tuple[Problem, TrialSet]], rounding: Answer, right: bool
) -> None:
    _, trial_set = banked(
        "x @ y", "torch.randn(96, 384), torch.randn(384, 96)", "x, y", precision="tf32"
    )
    assert any(trial.distribution == "beyond float16" for trial in trial_set.trials)
    assert (refusing(trial_set, lambda x, y: rounding(x) @ rounding(y)) == []) is right


REFERENCES = {
    "product": ("x @ y", "torch.randn(64, 300), torch.randn(300, 64)", "x, y"),
    "layer norm": ("nn.functional.layer_norm(x, x.shape[-1:])", "torch.randn(64, 700)", "x"),
}


@pytest.mark.parametrize("name", REFERENCES)
@pytest.mark.parametrize(
    "precision",
    ["kernelbench", {"absolute": 1e-5, "relative": 1e-5}, {"absolute": 1e-9, "relative": 0.0}],
    ids=["kernelbench", "1e-5", "1e-9"],
)
def test_told_tolerances_never_refuse_the_reference_itself(
    banked: Callable[..., tuple[Problem, TrialSet]], name: str, precision: object
) -> None:
    problem, trial_set = banked(*REFERENCES[name], precision=precision)
    for trial in trial_set.trials:
        assert inside(trial, problem.run(*trial.inputs)), trial.distribution
    assert trial_set.widened
    assert "the framework itself" in trial_set.notes[0]
    drawn = problem.draw(7)
    assert near(problem.run(*drawn), problem.run(*drawn), trial_set)


def test_told_tolerances_hold_as_given_where_the_framework_keeps_them(
    banked: Callable[..., tuple[Problem, TrialSet]],
) -> None:
    _, trial_set = banked("torch.tanh(x)", ROW, precision={"absolute": 1e-3, "relative": 0.0})
    assert trial_set.widened == ()
    assert trial_set.notes == ()
    assert refusing(trial_set, lambda x: torch.tanh(x) + 9e-4) == []
    assert len(refusing(trial_set, lambda x: torch.tanh(x) + 1.1e-3)) == len(trial_set.trials)


def test_sizes_that_were_not_seen_are_bounded_by_those_beside_them() -> None:
    exact = torch.tensor([2.0**-20, 1.0, 1.5, 4.0], dtype=torch.float64).repeat(100)
    slack, limits = measured_slack(exact, exact.abs() * 1e-5, 1, "strict", one_sided=False)
    assert limits == ()

    def allowed(size: float) -> float:
        return float(slack.margin(torch.tensor([size])))

    # Each size borrows from at least 64 elements that are greater: here from the next size.
    assert allowed(2.0**-20) == pytest.approx(8 * 1.5e-5, rel=0.01)
    assert allowed(2.0**-10) == allowed(1.0) == pytest.approx(8 * 4e-5, rel=0.01)
    assert allowed(2.0**-60) == allowed(2.0**-20)
    assert allowed(1024.0) == pytest.approx(8 * 4e-5 * 256, rel=0.01)


def test_a_longer_sum_may_be_off_by_more_up_to_a_limit() -> None:
    assert growth(1) == growth(256) == 1.0
    assert growth(4096) == 4.0
    assert growth(1 << 30) == 16.0
    assert growth(100, one_sided=True) == 1.0
    assert growth(10_000, one_sided=True) == 10.0


def welford(x: torch.Tensor) -> torch.Tensor:
    """A layer norm whose mean and variance are kept in float32 as elements come."""
    mean, squares = torch.zeros(x.shape[0]), torch.zeros(x.shape[0])
    for j in range(x.shape[1]):
        apart = x[:, j] - mean
        mean = mean + apart / (j + 1)
        squares = squares + apart * (x[:, j] - mean)
    return (x - mean[:, None]) / torch.sqrt(squares / x.shape[1] + 1e-5)[:, None]


@pytest.mark.parametrize("seed", [317, 616, 923])
def test_a_mean_that_is_updated_term_by_term_is_right_near_one(
    banked: Callable[..., tuple[Problem, TrialSet]], seed: int
) -> None:
    # Of 1,200 seeds the three whose answers were furthest off: by 4e-4, where values differ by 1e-3.
    problem, trial_set = banked("nn.functional.layer_norm(x, (333,))", "torch.randn(40, 333)")
    inputs = draw(problem, "near one", seed)
    trial = bounds_of(problem, trial_set, "near one", inputs, problem.run(*inputs), None)
    assert trial is not None
    assert inside(trial, (welford(*inputs),))
    assert not inside(trial, (welford(*inputs) + 1e-3,))


@pytest.mark.parametrize(
    "shape", [(1024, 33), (300, 64), (1000,), (1, 4096), (5, 7, 128), (4000, 1), (129, 1), ()]
)
def test_bounds_found_in_pieces_are_the_same(
    make_task: Tasks, monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...]
) -> None:
    source = SOURCE.format(
        names="x", forward="torch.sin(x) * 3", inputs=f"torch.randn({shape}) * 10"
    )
    problem = load_problem(make_task(source))
    whole = make_trials(problem, 5)
    monkeypatch.setattr(bounds, "_ROWS", 500)
    cut = list(pieces(torch.empty(shape)))
    assert (
        sum(torch.empty(shape)[one].numel() if shape else 1 for one in cut)
        == torch.empty(shape).numel()
    )
    parts = make_trials(problem, 5)
    for one, other in zip(whole.trials, parts.trials, strict=True):
        assert torch.equal(one.low[0], other.low[0])
        assert torch.equal(one.high[0], other.high[0])


def test_an_answer_is_cut_where_it_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "_ROWS", 500)
    assert [*pieces(torch.empty(1024, 64))][:2] == [slice(0, 7), slice(7, 14)]
    assert [*pieces(torch.empty(1000, 3))][:2] == [slice(0, 128), slice(128, 256)]
    assert [*pieces(torch.empty(10, 50))] == [slice(None)]
    assert [*pieces(torch.empty(4001, 1))][-1].stop == 4001


@pytest.mark.parametrize("piece", [1 << 26, 512])
def test_a_row_that_a_clamp_holds_is_bounded_by_what_its_size_is_off_by_elsewhere(
    piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own elements say nothing: however inexact the sums were, the clamp hides it until one crosses."""
    monkeypatch.setattr(bounds, "_ROWS", piece)
    sums = torch.linspace(-1.5, 1.5, 400, dtype=torch.float64).repeat(3, 1)
    sums[0] += 7  # all beyond the clamp, where nothing moves them
    exact, changed = sums.clamp(-1, 1), (sums + 1e-6).clamp(-1, 1)
    moved = count_moved(changed, exact)
    assert [count.flatten().tolist() for count in moved] == [[0, 266, 266]]  # columns are too short
    upright = count_moved(changed.T, exact.T)
    assert [count.flatten().tolist() for count in upright] == [[0, 266, 266]]
    errors = (changed - exact).abs().float() * 1000
    for counts, allowed in ((moved, 8e-3), (None, 0.0)):
        slack, limits = measured_slack(exact, errors, 1, "strict", one_sided=False, moved=counts)
        margin = slack.margin(exact, *limits)
        assert float(margin[0].max()) == pytest.approx(allowed, abs=1e-5)
        assert float(margin[1].max()) == pytest.approx(8e-3, rel=0.01)


def test_a_size_that_is_off_by_much_of_all_there_is_may_be_anything_between() -> None:
    exact = torch.tensor([-1.0, 1000.0, 10000.0], dtype=torch.float64).repeat_interleave(256)
    errors = torch.tensor([100.0, 1e-3, 1e-3], dtype=torch.float64).repeat_interleave(256)
    slack, _ = measured_slack(exact, errors, 1, "strict", one_sided=False)
    allowed = slack.margin(exact)
    assert float(allowed[0]) == 800  # of a distance of 10,001
    wide = unsettled(slack, exact).margin(exact)
    assert (wide[:256] >= 10_001).all()
    assert torch.equal(wide[256:], allowed[256:])


RECURRENT = """
import torch
import torch.nn as nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(16, 64, 3)
    def forward(self, x, h):
        return self.gru(x, h)[0]
def get_inputs():
    return [torch.rand(256, 4, 16), torch.rand(3, 4, 64)]
"""


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "right"), [(torch.float32, True), (torch.float16, False)])
def test_gates_that_rounding_turns_are_right_whichever_they_are(
    make_task: Tasks, dtype: torch.dtype, right: bool
) -> None:
    problem = load_problem(make_task(RECURRENT))
    trial_set = make_trials(problem, 3)
    assert trial_set.sums.recurrence == 256 * (16 + 64)
    order = torch.randperm(16, generator=torch.Generator().manual_seed(1))
    other = copy.deepcopy(problem.model)
    other.gru.weight_ih_l0.data = other.gru.weight_ih_l0.data[:, order].contiguous()
    other = other.to(dtype)
    refused = []
    for trial in trial_set.trials:
        assert trial.limits == ((),)
        x, h = trial.inputs
        with torch.no_grad():
            answer = other(x[..., order].contiguous().to(dtype), h.to(dtype)).float()
        if not inside(trial, (answer,)):
            refused.append(trial.distribution)
    assert (refused == []) is right
    assert right or {"task", "normal", "tiny", "spiked"} <= set(refused)
