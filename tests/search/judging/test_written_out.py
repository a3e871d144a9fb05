"""What infinities become where operators are written out: as right as what the library makes of them."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from search.judging.tolerance import make_trials
from search.judging.truth.reference import Truth
from search.judging.truth.transposed import TransposedProducts
from search.judging.truth.written_out import WrittenOut
from search.reference import load_problem
from search.task import Task

INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(
    ("groups", "kernel", "stride", "padding", "dilation"),
    [(2, 3, 2, 1, 1), (1, 4, 1, 0, 2), (4, 2, 3, 1, 1), (1, 1, 1, 2, 1)],
)
def test_convolutions_on_padded_inputs_are_the_same(
    axes: int, transposed: bool, groups: int, kernel: int, stride: int, padding: int, dilation: int
) -> None:
    torch.manual_seed(0)
    more = 1 if transposed and stride > 1 else 0
    first, second = (4, 8) if transposed else (8, 4)
    x = torch.randn(2, 4, *(9, 8, 7)[:axes], dtype=torch.float64)
    weight = torch.randn(
        first, (second if transposed else 4) // groups, *[kernel] * axes, dtype=torch.float64
    )
    bias = torch.randn(8, dtype=torch.float64)
    numbers = [[one] * axes for one in (stride, padding, dilation)]
    arguments = (x, weight, bias, *numbers, transposed, [more] * axes, groups)
    with WrittenOut():
        got = torch.convolution(*arguments)
    torch.testing.assert_close(got, torch.convolution(*arguments))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*is deprecated in favor of:UserWarning")
def test_norms_and_samples_are_the_same() -> None:
    torch.manual_seed(0)
    x, scale, shift = torch.randn(3, 4, 5, 6), torch.randn(4), torch.randn(4)
    places = torch.rand(3, 7, 8, 2) * 2 - 1
    factor = torch.randn(3, 4, 4) * 0.3 + 2 * torch.eye(4)
    lu, pivots = torch.linalg.lu_factor(torch.randn(3, 4, 4))
    asked = {
        "group": lambda: F.group_norm(x, 2, scale, shift),
        "bare group": lambda: torch.native_group_norm(x, None, None, 3, 4, 30, 2, 1e-5)[1],
        "layer": lambda: F.layer_norm(x, [5, 6]),
        "batch": lambda: F.batch_norm(x, None, None, scale, shift, training=True),
        "samples": lambda: F.grid_sample(x, places, align_corners=False),
        "inverse": lambda: torch.cholesky_inverse(factor),
        "inverse from above": lambda: torch.cholesky_inverse(factor.mT, upper=True),
        "solution": lambda: torch.cholesky_solve(x[..., 0], factor.tril()),
        "solution of LU": lambda: torch.linalg.lu_solve(lu, pivots, x[..., 0]),
        "across": lambda: torch.linalg.lu_solve(lu, pivots, x[..., 0].mT, left=False, adjoint=True),
        "old solution": lambda: torch.lu_solve(x[..., 0], lu, pivots),
        "with reflections": lambda: torch.ormqr(lu, x[:, 0, :4, 0], x[..., 0], True, True),
        "from the right": lambda: torch.ormqr(lu, x[:, 0, :4, 0], x[..., 0].mT, False),
        "reflections": lambda: torch.geqrf(x)[0] + torch.geqrf(x)[1].sum(),
        "orthogonal": lambda: torch.linalg.qr(x.mT).Q,
        "triangular": lambda: torch.linalg.qr(x[..., :3]).R,
        "sign": lambda: torch.slogdet(x[:, 0, :4, :4])[0],
        "log": lambda: torch.slogdet(x[:, :, :4, 1:5])[1],
        "log of what has one": lambda: torch.logdet(factor @ factor.mT),
        "variance": lambda: torch.var_mean(x, dim=(1, 3), correction=1)[0],
        "distances": lambda: torch.cdist(x.flatten(2), x.flatten(2)),
        "differences": lambda: torch.cdist(x.flatten(2).round(), x.flatten(2).round(), 0.0),
    }
    for name, run in asked.items():
        with WrittenOut():
            got = run()
        torch.testing.assert_close(got, run(), msg=lambda told, name=name: f"{name}: {told}")


def test_infinities_that_are_equal_differ_on_one_kind_of_device() -> None:
    one = torch.tensor([[INF, 1.0, 2.0]])
    other = torch.tensor([[INF, 1.0, 3.0], [1.0, 1.0, 2.0]])
    assert torch.equal(torch.cdist(one, other, 0.0)[0, 1], torch.tensor(1.0))
    assert torch.cdist(one, other, 0.0)[0, 0].isnan()
    with WrittenOut():
        assert torch.equal(torch.cdist(one, other, 0.0), torch.tensor([[2.0, 1.0]]))


def test_infinities_are_what_the_formula_says() -> None:
    x = torch.tensor([[[1.0, 2.0], [3.0, -INF]], [[1.0, 2.0], [3.0, 5.0]]])
    scale = torch.tensor([INF, 1.0])
    with WrittenOut():
        normed, mean, _ = torch.native_group_norm(x, scale, None, 2, 2, 2, 1, 1e-5)
        padded = torch.conv1d(torch.ones(1, 1, 2), torch.tensor([[[INF, 1.0, 1.0]]]), padding=1)
    assert mean.flatten().tolist() == [-INF, 2.75]
    assert normed[1, 0].tolist() == [-INF, -INF]
    assert normed[0].isnan().all()
    assert padded.isnan().tolist() == [[[True, False]]]


def test_an_infinity_behind_a_mask_is_not_looked_at() -> None:
    """A sum makes NaN of it, and so does attention in double precision; kernels in tiles choose."""
    q, k = torch.ones(2, 1).double(), torch.tensor([[-INF], [INF]]).double()
    v = torch.tensor([[3.0], [5.0]]).double()
    with WrittenOut():
        first, second = F.scaled_dot_product_attention(q, k, v, is_causal=True).flatten().tolist()
        plain = torch.tensor([INF, 1.0]) + torch.tensor([-INF, 2.0])
    assert first == 0.0  # what it sees is negative infinities, of which torch makes zero
    assert math.isnan(second)
    assert plain.isnan().tolist() == [True, False]  # no mask: a two is in it


def test_transposed_convolutions_are_written_out_beside_fast_products(
    make_task: Callable[..., Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a GPU the truth computes them as products, which hid them: right kernels were refused there."""
    problem = load_problem(make_task(TRANSPOSED))
    truth = Truth(problem)
    monkeypatch.setattr(truth, "_products", lambda _: TransposedProducts("cpu"))
    inputs = (torch.ones(1, 1, 2), torch.tensor([[[INF, 1.0]]]))
    assert truth(inputs)[0].tolist() == [[[INF, INF, 1.0]]]
    assert truth.written_out(inputs)[0].isnan().tolist() == [[[False, False, True]]]


TRANSPOSED = """
import torch
class Model(torch.nn.Module):
    def forward(self, x, weight):
        return torch.nn.functional.conv_transpose1d(x, weight)
def get_inputs():
    return [torch.ones(1, 1, 2), torch.ones(1, 1, 2)]
"""
SOURCE = """
import torch
import torch.nn.functional as F
class Model(torch.nn.Module):
    def forward(self, x, scale, shift):
        return {}
def get_inputs():
    return [torch.randn(4, 6, 5), torch.rand(6), torch.rand(6)]
"""


@pytest.mark.slow
def test_either_way_of_writing_it_is_right_on_special_values_alone(
    make_task: Callable[..., Task],
) -> None:
    task = make_task(SOURCE.format("F.group_norm(x, 2, scale, shift)"))
    settings = task.settings.model_copy(update={"special_values": True})
    problem = load_problem(replace(task, settings=settings))
    differ = 0
    for seed in range(0, 40_000, 1000):
        *_, trial = make_trials(problem, seed=seed).trials
        assert trial.special is not None
        x, scale, shift = trial.inputs
        rows = x.reshape(4, 2, 15)
        centred = rows - rows.mean(2, keepdim=True)
        inverse = torch.rsqrt(centred.square().mean(2, keepdim=True) + 1e-5)
        got = (centred * inverse).view(4, 6, 5) * scale[:, None] + shift[:, None]
        assert not trial.wrong(0, (got,)).any()
        assert not trial.wrong(0, (trial.special[0],)).any()
        differ += int((got.isnan() != trial.special[0].isnan()).sum())
        settled = trial.special[0].isfinite()
        for wrong in (torch.full_like(got, NAN), torch.full_like(got, INF), got + 1):
            assert trial.wrong(0, (wrong,))[settled].all()
    assert differ > 0


MASKED = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        kept = x.nan_to_num(0.0, 0.0, 0.0)
        # As attention on a GPU: what is masked is skipped, and multiplied by zero in double precision.
        return kept + 0.0 * x if x.dtype is torch.float64 else kept
def get_inputs():
    return [torch.randn(4, 500)]
"""


def test_the_framework_s_finite_answer_is_right_where_the_truth_is_no_number(
    make_task: Callable[..., Task],
) -> None:
    task = make_task(MASKED)
    settings = task.settings.model_copy(update={"special_values": True})
    *_, trial = make_trials(load_problem(replace(task, settings=settings)), seed=0).trials
    assert trial.special is not None
    (answer,) = trial.special
    odd = trial.inputs[0].isfinite().logical_not()
    assert odd.any()
    assert answer.isfinite().all()
    assert not trial.wrong(0, (answer,)).any()
    assert not trial.wrong(0, (torch.where(odd, answer + 1e-8, answer),)).any()
    assert trial.wrong(0, (answer + 1,)).all()
