"""What would assert on a GPU is asked on the host."""

from collections.abc import Callable

import pytest
import torch

from search.costs.trace import operator_graph
from search.judging.cuda.draws import Draws
from search.judging.host_screen import HostScreen, host_model, may_assert, refused
from search.judging.inputs import FACTORS, draw, scaled_apart
from search.judging.tolerance import make_trials
from search.reference import Problem, load_problem
from search.task import Task

SOURCE = """
import torch
import torch.nn.functional as F
class Model(torch.nn.Module):
    def forward(self, a, b):
        return {}
def get_inputs():
    return [{}]
"""
FLOATS = "torch.rand(8, 10), torch.rand(8, 10)"
INDEXED = "torch.rand(8, 10), torch.randint(0, 8, (5,))"


@pytest.mark.parametrize(
    ("forward", "inputs", "asserts"),
    [
        ("F.binary_cross_entropy(a, b)", FLOATS, True),
        ("torch.quantile(a, 0.3, dim=1) + b.sum()", FLOATS, True),
        ("torch.linalg.cholesky(a[:, :8] + torch.eye(8)) + b.sum()", FLOATS, True),
        ("torch.svd(a)[1] + b.sum()", FLOATS, True),
        ("torch.linalg.inv(a[:, :8]) + b.sum()", FLOATS, True),
        ("torch.linalg.solve(a[:, :8], b)", FLOATS, True),
        ("torch.linalg.eigvalsh(a[:, :8]) + b.sum()", FLOATS, True),
        ("a[(b[0] * 8).long()]", FLOATS, True),
        ("torch.gather(a, 1, (b * 10).to(torch.int64))", FLOATS, True),
        ("a[b]", INDEXED, False),
        ("F.embedding(b, a)", INDEXED, False),
        ("torch.gather(a, 1, torch.argmax(b, 1, keepdim=True))", FLOATS, False),
        ("torch.gather(a, 1, torch.topk(b, 3, dim=1)[1])", FLOATS, False),
        ("F.binary_cross_entropy_with_logits(a, b)", FLOATS, False),
    ],
)
def test_operators_that_may_assert_are_known(
    make_task: Callable[..., Task], forward: str, inputs: str, asserts: bool
) -> None:
    problem = load_problem(make_task(SOURCE.format(forward, inputs)))
    assert may_assert(operator_graph(problem)) is asserts


@pytest.fixture
def entropy(make_task: Callable[..., Task]) -> Problem:
    return load_problem(make_task(SOURCE.format("F.binary_cross_entropy(a, b)", FLOATS)))


def test_the_host_says_why_inputs_are_refused(entropy: Problem) -> None:
    there, here = torch.rand(8, 10), torch.rand(8, 10)
    assert refused(entropy.model, (there, here)) == ""
    assert "between 0 and 1" in refused(entropy.model, (there + 1, here))


def test_singular_values_of_what_is_infinite_are_asked_of_nobody(
    make_task: Callable[..., Task],
) -> None:
    source = SOURCE.format("torch.svd(a)", "torch.rand(8, 10)").replace(", b", "")
    problem = load_problem(make_task(source, special_values=True))
    trial_set = make_trials(problem, 1)
    assert "special values" in dict(trial_set.dropped)
    assert "special values" not in {trial.distribution for trial in trial_set.trials}


def test_a_reference_that_runs_on_a_gpu_alone_is_not_asked(
    entropy: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert host_model(entropy) is not None
    there = torch.empty(1, device="meta")
    monkeypatch.setattr(type(entropy.model), "forward", lambda *_: there.item())
    assert host_model(entropy) is None


def test_values_that_are_valid_by_luck_are_refused(make_task: Callable[..., Task]) -> None:
    problem = load_problem(make_task(SOURCE.format("torch.quantile(a, b[0, :2])", FLOATS)))
    screen = HostScreen(problem, operator_graph(problem))
    seeds = range(0, 4000, 100)
    taken = [refused(problem.model, draw(problem, "normal", seed)) == "" for seed in seeds]
    assert any(taken)
    assert all("range [0, 1]" in screen.refusal("normal", seed) for seed in seeds)
    assert screen.refusal("task", 0) == ""


def test_what_takes_all_values_is_not_asked(
    make_task: Callable[..., Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = load_problem(make_task(SOURCE.format("torch.log(a) + b", FLOATS)))
    screen = HostScreen(problem, operator_graph(problem))
    monkeypatch.setattr(type(problem.model), "forward", lambda *_: pytest.fail("it was asked"))
    assert screen.refusal("negative", 0) == ""


def test_a_matrix_stays_positive_where_its_elements_are_scaled_apart(
    make_task: Callable[..., Task],
) -> None:
    """Each element by its own factor from 0.8 to 1 makes another matrix, which has no factor of Cholesky."""
    drawn = "*(lambda m: [m @ m.mT + 0.1 * torch.eye(6), torch.ones(6, 6)])(torch.randn(3, 6, 6))"
    problem = load_problem(make_task(SOURCE.format("torch.linalg.cholesky(a) + b", drawn)))
    wide, narrow = FACTORS
    assert any(
        refused(problem.model, scaled_apart(problem.inputs, seed, wide)) for seed in range(12)
    )
    trial_set = make_trials(problem)
    assert trial_set.least_factor == narrow
    draws = Draws(problem, trial_set)
    made = [draws.make(one) for one in draws.draw(50, audits=True)]
    assert not any(refused(problem.model, one) for one in made)
    assert len({tuple(a.flatten().tolist()) for a, _ in made}) == 50


def test_a_matrix_that_is_seldom_not_positive_is_noticed(make_task: Callable[..., Task]) -> None:
    """Of the matrices that torch's own sample becomes, three of four hundred are not positive: eager raised when it was timed."""
    near = "*[torch.tensor([[2.0, 1.2], [1.2, 1.0]]), torch.ones(2, 2)]"
    problem = load_problem(make_task(SOURCE.format("torch.linalg.cholesky(a) + b", near)))
    wide, narrow = FACTORS
    said = [refused(problem.model, scaled_apart(problem.inputs, n, wide)) for n in range(400)]
    assert 0 < sum(map(bool, said)) < 12
    assert {HostScreen(problem, operator_graph(problem)).least_factor for _ in range(5)} == {narrow}


def test_elements_are_scaled_far_apart_where_the_reference_takes_them(
    make_task: Callable[..., Task],
) -> None:
    problem = load_problem(make_task(SOURCE.format("torch.quantile(a, b[0, :2])", FLOATS)))
    assert HostScreen(problem, operator_graph(problem)).least_factor == FACTORS[0]


def test_nobody_is_asked_what_a_transform_makes_of_infinities(
    make_task: Callable[..., Task],
) -> None:
    """cuFFT's answers to frames that overlap and to a copy of them differ in 9,740 of 1.6 million elements."""
    stft = "torch.stft(a.flatten(), n_fft=10, return_complex=False) + b.sum()"
    shifted = "torch.fft.fftshift(a) * b"
    for forward, asked in ((stft, False), ("a * b", True), (shifted, True)):
        task = make_task(SOURCE.format(forward, FLOATS), special_values=True)
        trials = make_trials(load_problem(task), 3)
        assert ("special values" in [one.distribution for one in trials.trials]) is asked
        assert (trials.dropped == ()) is asked
        assert all(name == "special values" and "transform" in why for name, why in trials.dropped)


def test_a_reference_that_checks_its_values_is_asked_too(make_task: Callable[..., Task]) -> None:
    """Of single numbers every second normal one is negative: a draw that is taken says nothing of the next."""
    source = SOURCE.format(
        "F.gaussian_nll_loss(a, a + 1, b)", "torch.randn(()), torch.rand(()) + 0.1"
    )
    problem = load_problem(make_task(source))
    assert operator_graph(problem).checked
    trials = make_trials(problem, 3)
    kept = {one.distribution for one in trials.trials}
    assert {"task", "large mean", "near one"} <= kept
    assert not kept & {"normal", "tiny", "huge", "sparse"}, trials.dropped
    assert not operator_graph(load_problem(make_task(SOURCE.format("a * b", FLOATS)))).checked
