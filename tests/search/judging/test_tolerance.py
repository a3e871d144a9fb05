from collections.abc import Callable

import numpy as np
import pytest
import torch

from kb.errors import TaskError
from search.judging import bounds
from search.judging.compare import explain
from search.judging.inputs import DISTRIBUTIONS, FEW_LARGE
from search.judging.tolerance import make_trials
from search.judging.trial import inside
from search.judging.truth.reference import Truth
from search.reference import Problem, load_problem
from search.task import Task

HEAD = "import torch\nimport torch.nn as nn\nclass Model(nn.Module):\n"


def problem_of(
    make_task: Callable[..., Task], forward: str, inputs: str, **settings: object
) -> Problem:
    source = f"{HEAD}    def forward(self, x):\n        return {forward}\ndef get_inputs():\n    return [{inputs}]\n"
    return load_problem(make_task(source, **settings))


def test_the_frameworks_own_answer_is_right_on_every_distribution(
    make_task: Callable[..., Task],
) -> None:
    problem = problem_of(make_task, "torch.softmax(x, -1)", "torch.randn(32, 100)")
    trial_set = make_trials(problem, 1)
    assert {trial.distribution for trial in trial_set.trials} >= {
        "task",
        "normal",
        "large mean",
        "tiny",
        "huge",
    }
    for trial in trial_set.trials:
        assert inside(trial, problem.run(*trial.inputs)), trial.distribution


def test_one_element_out_of_bounds_is_enough_to_be_wrong(make_task: Callable[..., Task]) -> None:
    problem = problem_of(make_task, "torch.tanh(x)", "torch.randn(32, 100)")
    trial = make_trials(problem, 1).trials[0]
    answer = problem.run(*trial.inputs)[0].clone()
    answer[31, 99] += 1e-4
    assert not inside(trial, (answer,))
    reason, detail = explain(problem, trial, (answer,))
    assert "in 1 of 3200 elements" in reason
    assert "at [31, 99]" in detail
    assert "dimension 0, from 31 to 31" in detail
    answer[31, 99] = float("nan")
    assert not inside(trial, (answer,))


@pytest.mark.parametrize(
    ("precision", "rounding", "passes"),
    [
        ("strict", torch.float16, False),
        ("half", torch.float16, True),
        ("tf32", torch.float16, True),
        ("half", torch.float8_e5m2, False),
        ("kernelbench", torch.float16, False),
        ({"absolute": 0.5, "relative": 0.0}, torch.float16, True),
    ],
)
def test_precision_decides_how_much_rounding_passes(
    make_task: Callable[..., Task], precision: object, rounding: torch.dtype, passes: bool
) -> None:
    problem = problem_of(make_task, "x @ x.T", "torch.randn(64, 64)", precision=precision)
    trial = next(t for t in make_trials(problem, 1).trials if t.distribution == "normal")
    rounded = trial.inputs[0].to(rounding).float()
    assert inside(trial, problem.run(rounded)) is passes


@pytest.fixture(params=["whole", "rows"])
def room(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Bytes for trials; none, so that they are looked at by rows."""
    if request.param == "whole":
        return 1 << 30
    monkeypatch.setattr(bounds, "_ROWS", 700)
    return 0


def test_zeros_that_would_pass_at_a_loose_tolerance_are_told(
    make_task: Callable[..., Task], room: int
) -> None:
    loose = {"absolute": 2.0, "relative": 0.0}
    problem = problem_of(make_task, "torch.softmax(x, -1)", "torch.randn(32, 100)", precision=loose)
    with pytest.raises(TaskError, match="all zeros would pass"):
        make_trials(problem, 1, room=room)


def test_a_reference_that_returns_its_input_is_no_task(
    make_task: Callable[..., Task], room: int
) -> None:
    problem = problem_of(make_task, "x * 1.0", "torch.randn(64, 64)")
    with pytest.raises(TaskError, match="input 0 itself would pass"):
        make_trials(problem, 1, room=room)


def test_distributions_that_the_reference_cannot_take_are_dropped_and_named(
    make_task: Callable[..., Task],
) -> None:
    trial_set = make_trials(problem_of(make_task, "torch.log(x)", "torch.rand(16, 16) + 0.5"), 1)
    dropped = dict(trial_set.dropped)
    assert {"normal", "negative"} <= set(dropped)
    assert "not finite" in dropped["normal"]
    assert any(trial.distribution == "large mean" for trial in trial_set.trials)


def test_a_pattern_of_zeros_is_kept_in_every_distribution(make_task: Callable[..., Task]) -> None:
    trial_set = make_trials(problem_of(make_task, "x @ x", "torch.randn(16, 16).tril()"), 1)
    for trial in trial_set.trials:
        assert torch.equal(trial.inputs[0], trial.inputs[0].tril()), trial.distribution


def test_special_values_must_come_out_as_the_framework_brings_them_out(
    make_task: Callable[..., Task],
) -> None:
    problem = problem_of(make_task, "torch.relu(x)", "torch.randn(64, 64)", special_values=True)
    trial = make_trials(problem, 1).trials[-1]
    assert trial.distribution == "special values"
    assert inside(trial, problem.run(*trial.inputs))
    cleaned = problem.run(*trial.inputs)[0].nan_to_num(0.0)
    assert not inside(trial, (cleaned,))


def test_what_the_truth_has_of_special_values_is_right_too(make_task: Callable[..., Task]) -> None:
    """torch's GELU of infinity is NaN in float32 on some processors, and infinity in float64."""
    text = "torch.nn.functional.gelu(x)"
    problem = problem_of(make_task, text, "torch.randn(64, 64)", special_values=True)
    trial = make_trials(problem, 1).trials[-1]
    (x,) = trial.inputs
    assert bool((x == torch.inf).any())
    assert inside(trial, problem.run(x))
    assert inside(trial, (problem.model.double()(x.double()).float(),))
    assert not inside(trial, (torch.where(x == torch.inf, 0.0, problem.run(x)[0].float()),))


def test_a_reference_that_has_no_float64_is_told(make_task: Callable[..., Task]) -> None:
    problem = problem_of(
        make_task, "x @ torch.ones(8, 8, dtype=torch.float32)", "torch.randn(8, 8)"
    )
    with pytest.raises(TaskError, match="cannot run in float64"):
        make_trials(problem, 1)


CONSTANT = """import torch
import torch.nn as nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(40, 50)
    def forward(self, x):
        x = self.linear(x).max(dim=1, keepdim=True).values
        return torch.nn.functional.gelu(x - x.mean(dim=1, keepdim=True))
def get_inputs():
    return [torch.randn(32, 40)]
"""


def test_a_reference_that_always_answers_the_same_is_judged_and_marked(
    make_task: Callable[..., Task],
) -> None:
    trial_set = make_trials(load_problem(make_task(CONSTANT)), 1)
    assert trial_set.degenerate
    assert any("degenerate" in note for note in trial_set.notes)
    assert inside(trial_set.trials[0], (torch.zeros(32, 1),))
    assert not inside(trial_set.trials[0], (torch.full((32, 1), 1e-3),))


def test_a_bias_alone_is_no_constant_for_other_parameters_give_another(
    make_task: Callable[..., Task],
) -> None:
    source = CONSTANT.replace("return torch", "return self.linear.bias + 0 * torch")
    with pytest.raises(TaskError, match="would pass"):
        make_trials(load_problem(make_task(source)), 1)


def test_memory_decides_no_distribution_and_no_bound(make_task: Callable[..., Task]) -> None:
    # Given positive inputs alone, it is the identity.
    problem = problem_of(make_task, "torch.nn.functional.leaky_relu(x)", "torch.rand(64, 100)")
    roomy, scarce = make_trials(problem, 1), make_trials(problem, 1, room=0)
    assert not scarce.dropped
    names = [trial.distribution for trial in scarce.trials]
    assert names == [trial.distribution for trial in roomy.trials]
    for kept, again in zip(roomy.trials, scarce.trials, strict=True):
        for one, other in (
            (kept.inputs, again.inputs),
            (kept.low, again.low),
            (kept.high, again.high),
        ):
            assert torch.equal(one[0], other[0]), kept.distribution
    first = scarce.trials[0].recall()
    assert scarce.trials[0].recall() is first
    assert scarce.trials[1].recall() is not first
    assert scarce.trials[0].recall() is not first


@pytest.mark.slow
@pytest.mark.parametrize(
    ("forward", "inputs", "cut"),
    [
        ("torch.softmax(x * 3, 1)", "torch.rand(64, 128)", True),
        ("x.cumsum(1).relu()", "torch.randn(129, 33)", True),
        ("x - x.mean(0)", "torch.rand(64, 128)", False),
        ("x.view(64, 64, 2).sum(2)", "torch.rand(64, 128)", False),
        ("x.sum(1).cumsum(0)", "torch.rand(640, 10)", False),
        (
            "(x * torch.arange(64.0, device=x.device).to(x.dtype)[:, None])",
            "torch.rand(64, 128)",
            False,
        ),
        ("torch.relu(x) @ x.new_ones(100, 7)", "torch.randn(256, 100)", True),
    ],
)
def test_bounds_of_rows_that_stand_apart_are_found_in_pieces(
    make_task: Callable[..., Task],
    monkeypatch: pytest.MonkeyPatch,
    forward: str,
    inputs: str,
    cut: bool,
) -> None:
    problem = problem_of(make_task, forward, inputs)
    asked = max(rows for (rows,) in asked_in_pieces(problem, monkeypatch))
    assert (asked < len(problem.inputs[0])) == cut


def full_as_a_whole(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the device be full wherever the truth of all rows is asked for."""
    monkeypatch.setattr(bounds, "_ROWS", 30)
    answered = Truth.__call__
    rows = len(problem.inputs[0])  # type: ignore[arg-type] - a tensor

    def few(self: Truth, given: tuple[torch.Tensor, ...], *how: object) -> object:
        if type(self) is Truth and len(given[0]) == rows:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return answered(self, given, *how)  # type: ignore[arg-type] - as it was called

    monkeypatch.setattr(Truth, "__call__", few)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("forward", "inputs"),
    [
        ("torch.softmax(x * 3, 1)", "torch.rand(64, 128)"),
        ("x.amax((1, 2))", "torch.randn(16, 32, 40)"),  # the answer is small, its input is cut
    ],
)
def test_some_rows_are_measured_at_a_time_where_the_truth_of_all_does_not_fit(
    make_task: Callable[..., Task], monkeypatch: pytest.MonkeyPatch, forward: str, inputs: str
) -> None:
    problem = problem_of(make_task, forward, inputs)
    whole = make_trials(problem, 1)
    with monkeypatch.context() as patch:
        full_as_a_whole(problem, patch)
        pieces = make_trials(problem, 1)
        edges = [(trial.low[0], trial.high[0]) for trial in pieces.trials]
        assert pieces.cut is not None
    assert [one.distribution for one in pieces.trials] == [one.distribution for one in whole.trials]
    for trial, (low, high) in zip(whole.trials, edges, strict=True):
        width = (trial.high[0] - trial.low[0]).clamp(min=1e-37)
        # Bounds come from what errors were seen, and the rounding of inputs is drawn anew.
        assert 0.25 < float(((high - low) / width).median()) < 4, trial.distribution
        assert bool((torch.maximum(low, trial.low[0]) <= torch.minimum(high, trial.high[0])).all())


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 4, 7])
def test_large_errors_in_one_row_of_many_are_those_of_a_right_answer(
    make_task: Callable[..., Task], monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    source = (
        f"{HEAD}    def forward(self, x, w):\n        return torch.softmax(x @ w, 1)\n\n\n"
        "def get_inputs():\n    return [torch.randn(1024, 128), torch.randn(128, 32) / 11]\n"
    )
    problem = load_problem(make_task(source))
    full_as_a_whole(problem, monkeypatch)
    assert make_trials(problem, seed).cut is not None


def test_parts_of_which_some_are_within_the_tasks_tolerances_are_one_trial(
    make_task: Callable[..., Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = "torch.rand(64, 128) * (1 + 1000.0 * (torch.arange(64) % 4 == 3))[:, None]"
    loose = {"absolute": 1e-3, "relative": 1e-9}
    problem = problem_of(make_task, "x * x + x", inputs, precision=loose)
    full_as_a_whole(problem, monkeypatch)
    assert make_trials(problem, 1).cut is not None


@pytest.mark.parametrize("rows", [2, 3, 5, 9])
def test_few_rows_are_measured_too(
    make_task: Callable[..., Task], monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    problem = problem_of(make_task, "torch.softmax(x, 1)", f"torch.randn({rows}, 64)")
    full_as_a_whole(problem, monkeypatch)
    assert make_trials(problem, 1).cut is not None


def test_a_reference_that_is_constant_is_degenerate_where_some_trials_are_kept_and_others_not(
    make_task: Callable[..., Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = problem_of(make_task, "torch.softmax(x, 1).sum(1)", "torch.randn(4, 256)")
    one = make_trials(problem, 1).trials[0].recall().nbytes
    monkeypatch.setattr(bounds, "_ROWS", 256)
    assert make_trials(problem, 1, room=one * 3 // 2).degenerate


@pytest.mark.parametrize("forward", ["x - x.mean(0)", "x.cumsum(0)", "x / x.norm()"])
def test_rows_that_depend_on_one_another_need_memory_for_all_of_them(
    make_task: Callable[..., Task], monkeypatch: pytest.MonkeyPatch, forward: str
) -> None:
    problem = problem_of(make_task, forward, "torch.randn(64, 128)")
    full_as_a_whole(problem, monkeypatch)
    with pytest.raises(torch.OutOfMemoryError, match="do not stand apart"):
        make_trials(problem, 1)


def test_an_answer_is_looked_at_in_the_pieces_of_its_inputs(
    make_task: Callable[..., Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = problem_of(make_task, "x.cumsum(1)", "torch.randn(64, 128)")
    assert [*make_trials(problem, 1).parts((1,), (2,))] == [((1,), (2,))]
    monkeypatch.setattr(bounds, "_ROWS", 700)
    trial_set = make_trials(problem, 1, room=0)
    (given,) = trial_set.trials[0].inputs
    parts = [*trial_set.parts((given,), (given + 1,))]
    assert len(parts) > 1
    assert torch.equal(torch.cat([inputs[0] for inputs, _ in parts]), given)
    assert all(torch.equal(answer[0], inputs[0] + 1) for inputs, answer in parts)


@pytest.mark.slow
def test_a_square_right_side_is_not_cut(
    make_task: Callable[..., Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = (
        f"{HEAD}    def forward(self, x, y):\n        return x @ y\n"
        "def get_inputs():\n    return [torch.rand(64, 64), torch.rand(64, 64)]\n"
    )
    problem = load_problem(make_task(source))
    assert asked_in_pieces(problem, monkeypatch) == {(1, 64)}


def asked_in_pieces(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> set[tuple[int, ...]]:
    """Return how many rows of each input the truth is asked for, where trials are made again from few rows.

    Their inputs and bounds are those of trials that are kept.
    """
    whole = make_trials(problem, 1)
    monkeypatch.setattr(bounds, "_ROWS", 30)
    asked: set[tuple[int, ...]] = set()
    answered = Truth.__call__

    def watched(self: Truth, given: tuple[torch.Tensor, ...], moved: object = None) -> object:
        asked.add(tuple(len(x) for x in given))
        return answered(self, given, moved)  # type: ignore[arg-type] - as it was called

    pieces = make_trials(problem, 1, room=0)
    pieces.forget()
    monkeypatch.setattr(Truth, "__call__", watched)
    for one, other in zip(whole.trials, pieces.trials, strict=True):
        assert torch.equal(one.inputs[0], other.inputs[0])
        for edge, same in ((one.low, other.low), (one.high, other.high)):
            torch.testing.assert_close(edge[0], same[0], rtol=1e-6, atol=1e-30)
    return asked


def test_indices_are_looked_up_where_trials_are_drawn_again(make_task: Callable[..., Task]) -> None:
    problem = problem_of(make_task, "torch.topk(x, 3)", "torch.randn(16, 50)")
    for trial in make_trials(problem, 1, room=0).trials:
        values, indices = problem.run(*trial.inputs)
        assert inside(trial, (values, indices)), trial.distribution
        assert not inside(trial, (values, indices.flip(-1))), trial.distribution


@pytest.mark.parametrize("seed", [145017, 199017, 365017])
def test_sums_added_in_order_are_right_where_a_few_large_terms_cancel(
    make_task: Callable[..., Task], seed: int
) -> None:
    # On these draws random signs of the terms' errors cancelled as the terms did.
    problem = problem_of(make_task, "torch.cumsum(x, -1)", "torch.randn(24, 3000)")
    place = 1 + list(DISTRIBUTIONS).index(FEW_LARGE)
    trial = make_trials(problem, seed - 7919 * (place + 1)).trials[place]
    assert trial.distribution == FEW_LARGE
    added = np.add.accumulate(trial.inputs[0].numpy(), axis=-1, dtype=np.float32)
    assert inside(trial, (torch.from_numpy(added),))


def test_a_slow_reference_says_how_far_its_bounds_are(
    make_task: Callable[..., Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = problem_of(make_task, "torch.tanh(x)", "torch.randn(4, 4)")
    said: list[str] = []
    make_trials(problem, 3, progress=said.append)
    assert not said, "it takes no time"
    monkeypatch.setattr("search.judging.tolerance._QUIET", 0.0)
    make_trials(problem, 3, progress=said.append)
    assert f"1 of {len(said)}" in said[0]
    assert "'normal' inputs" in said[2]
