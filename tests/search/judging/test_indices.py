from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from search.judging.checks import agrees
from search.judging.compare import explain
from search.judging.indices import IndexWatch
from search.judging.tolerance import make_trials
from search.judging.trial import inside
from search.reference import Problem, load_problem
from search.task import Task

X = torch.randn(3, 8, 10, generator=torch.Generator().manual_seed(3))
SEARCHES: dict[str, Callable[[], torch.Tensor]] = {
    "argmax": lambda: torch.argmax(X, -1),
    "argmin, kept, in 32 bits": lambda: torch.argmin(X, 1, keepdim=True).int(),
    "argmax of everything": lambda: torch.argmax(X),
    "max with indices": lambda: X.max(1)[1],
    "topk, transposed": lambda: X.topk(3, 1)[1].transpose(1, 2),
    "sort": lambda: torch.sort(X, dim=0)[1],
    "part of an argsort": lambda: torch.argsort(X, -1)[:, :, 2:5].contiguous().int(),
    "1-D pooling": lambda: F.max_pool1d(X, 3, stride=2, padding=1, return_indices=True)[1],
    "2-D pooling": lambda: F.max_pool2d(X, (3, 2), padding=1, return_indices=True)[1],
    "dilated pooling": lambda: F.max_pool2d(X, 2, dilation=2, return_indices=True)[1],
    "pooling to the ceiling": lambda: F.max_pool2d(X, 3, 2, ceil_mode=True, return_indices=True)[1],
    "3-D pooling": lambda: F.max_pool3d(X[None], 2, return_indices=True)[1],
    "adaptive pooling": lambda: F.adaptive_max_pool2d(X, (3, 7), return_indices=True)[1],
    "cummax": lambda: X.cummax(1)[1],
    "median": lambda: X.median(2)[1],
}


def problem_of(make_task: Callable[..., Task], forward: str, inputs: str) -> Problem:
    return load_problem(
        make_task(
            "import torch\nimport torch.nn as nn\nclass Model(nn.Module):\n    def forward(self, x):\n"
            f"        return {forward}\ndef get_inputs():\n    return [{inputs}]\n"
        )
    )


@pytest.mark.parametrize("name", SEARCHES)
def test_an_index_leads_to_its_value_and_one_outside_to_none(name: str) -> None:
    with torch.no_grad(), IndexWatch() as watch:
        output = SEARCHES[name]()
    lookup = watch.lookup(output)
    assert lookup is not None
    values, permitted = lookup.values(output.clone())
    assert values.shape == output.shape
    assert bool(permitted.all())
    assert bool(torch.isin(values, X).all())
    assert not bool(lookup.values(torch.full_like(output, 7777))[1].any())


def test_arithmetic_with_an_index_makes_a_number_of_it() -> None:
    with IndexWatch() as watch:
        output = torch.argmax(X, -1) % 2
    assert watch.lookup(output) is None


def test_indices_that_are_changed_in_place_are_indices_no_more() -> None:
    with IndexWatch() as watch:
        output = torch.argmax(X, -1)
        output[output > 5] = -100
        other = torch.argmax(X, -1).remainder_(4)
        turned = torch.argmax(X, -1).unsqueeze_(0)
    assert watch.lookup(output) is None
    assert watch.lookup(other) is None
    assert watch.lookup(turned) is not None, "nothing in it was changed"


def test_places_of_whole_numbers_are_exact(make_task: Callable[..., Task]) -> None:
    problem = problem_of(make_task, "torch.argsort(x)", "torch.randint(1 << 30, 1 << 31, (20000,))")
    for trial in make_trials(problem, 3).trials:
        given = trial.inputs[0]
        assert inside(trial, (given.sort(stable=False)[1],))
        assert not inside(trial, ((given >> 10).sort()[1],)), "the last bits were left out"


def test_the_last_of_equal_values_is_as_right_as_the_first(make_task: Callable[..., Task]) -> None:
    problem = problem_of(
        make_task, "torch.argmax(x, -1)", "torch.randint(0, 20, (32, 100)).float()"
    )
    trial_set = make_trials(problem, 1)
    differing = 0
    for trial in trial_set.trials:
        (x,) = trial.inputs
        last = 99 - torch.argmax(x.flip(-1), -1)
        differing += int((last != problem.run(x)[0]).sum())
        assert inside(trial, (last,)), trial.distribution
        last[7] = torch.argmin(x[7])
        assert not inside(trial, (last,)), trial.distribution
    assert differing
    (x,) = problem.draw(11)
    last, eager = 99 - torch.argmax(x.flip(-1), -1), problem.run(x)
    assert agrees(problem, trial_set.trials[0], (x,), None, ((last,), eager))
    last[3] = torch.argmin(x[3])
    assert not agrees(problem, trial_set.trials[0], (x,), None, ((last,), eager))


def test_indices_of_a_sum_are_right_within_the_bounds_of_the_sum(
    make_task: Callable[..., Task],
) -> None:
    problem = problem_of(make_task, "torch.argmax(x @ x.T, -1)", "torch.randn(64, 300)")
    trial_set = make_trials(problem, 1)
    for trial in trial_set.trials:
        (x,) = trial.inputs
        assert inside(trial, (torch.argmax(x.double() @ x.double().T, -1),)), trial.distribution
        assert not inside(trial, (torch.argmin(x @ x.T, -1),)), trial.distribution


def test_an_index_that_topk_names_twice_is_wrong(make_task: Callable[..., Task]) -> None:
    problem = problem_of(make_task, "torch.topk(x, 3)", "torch.randint(0, 9, (32, 100)).float()")
    trial = make_trials(problem, 1).trials[0]
    values, indices = (value.clone() for value in problem.run(*trial.inputs))
    assert inside(trial, (values, indices))
    assert float(values[0, 0]) == float(values[0, 1])
    indices[0, 1] = indices[0, 0]
    assert not inside(trial, (values, indices))
    reason, detail = explain(problem, trial, (values, indices))
    assert "output 1" in reason
    assert "a second time" in detail


def test_values_that_belong_to_other_indices_are_wrong(make_task: Callable[..., Task]) -> None:
    problem = problem_of(make_task, "torch.max(x, -1)", "torch.randn(32, 100)")
    trial = make_trials(problem, 1).trials[0]
    values, indices = (value.clone() for value in problem.run(*trial.inputs))
    assert inside(trial, (values, indices))
    assert not inside(trial, (values.roll(1), indices))
    assert not inside(trial, (values, indices.roll(1)))


def test_a_pooled_index_must_lie_in_its_window(make_task: Callable[..., Task]) -> None:
    problem = problem_of(
        make_task,
        "torch.nn.functional.max_pool2d(x, 2, return_indices=True)",
        "torch.randint(0, 3, (2, 3, 8, 8)).float()",
    )
    trial = make_trials(problem, 1).trials[0]
    values, indices = (value.clone() for value in problem.run(*trial.inputs))
    assert inside(trial, (values, indices))
    plane = trial.inputs[0][0, 0].flatten()
    elsewhere = int((plane == values[0, 0, 0, 0]).nonzero().max())
    assert elsewhere > 9
    indices[0, 0, 0, 0] = elsewhere
    assert not inside(trial, (values, indices))


@pytest.mark.parametrize(
    ("forward", "wrong"),
    [
        ("(x > 0).sum(-1)", "127 - answer"),
        ("x > 0.25", "~answer"),
        ("(x * 40).clamp(-100, 100).to(torch.int8)", "answer ^ 1"),
        ("(x * 1000).to(torch.int32)", "answer + 1"),
    ],
)
def test_integers_and_booleans_must_be_equal_in_every_place(
    make_task: Callable[..., Task], forward: str, wrong: str
) -> None:
    problem = problem_of(make_task, forward, "torch.randn(64, 100)")
    for trial in make_trials(problem, 1).trials:
        (answer,) = problem.run(*trial.inputs)
        assert inside(trial, (answer,)), trial.distribution
    trial = make_trials(problem, 1).trials[0]
    (answer,) = problem.run(*trial.inputs)
    spoilt = answer.clone().flatten()
    spoilt[5] = eval(wrong, {"answer": spoilt.clone()})[5]
    assert not inside(trial, (spoilt.view(answer.shape),))
    reason, _ = explain(problem, trial, (spoilt.view(answer.shape),))
    assert f"in 1 of {answer.numel()} values" in reason


def test_a_boolean_that_was_never_written_is_wrong(make_task: Callable[..., Task]) -> None:
    problem = problem_of(make_task, "x > 0", "torch.randn(64, 100)")
    trial = make_trials(problem, 1).trials[0]
    (answer,) = problem.run(*trial.inputs)
    spoilt = answer.clone()
    spoilt.view(torch.uint8)[answer] = 0x7F
    assert not inside(trial, (spoilt,))


def test_a_decision_that_rounding_makes_may_fall_either_way(make_task: Callable[..., Task]) -> None:
    cancelling = "(lambda r: torch.cat([r, -r.flip(-1)], -1))(torch.randn(32, 150))"
    problem = problem_of(
        make_task, "x.sum(-1) > 0", f"torch.cat([torch.randn(480, 300), {cancelling}])"
    )
    trial = make_trials(problem, 1).trials[0]
    (x,) = trial.inputs
    assert int((trial.low[0] != trial.high[0])[480:].sum()) > 8
    assert inside(trial, (x.double().sum(-1) > 0,))
    assert inside(trial, problem.run(x))
    assert not inside(trial, (~problem.run(x)[0],))


def test_a_stable_sort_keeps_equal_ones_in_their_order() -> None:
    tied = torch.tensor([[2.0, 1.0, 2.0, 1.0]])
    for stable, wanted in ((True, [[True, False, True, True]]), (None, [[True] * 4])):
        with torch.no_grad(), IndexWatch() as watch:
            output = torch.sort(tied, dim=-1, stable=stable)[1]
        lookup = watch.lookup(output)
        assert lookup is not None
        assert lookup.values(output)[1].all()
        _, permitted = lookup.values(torch.tensor([[3, 1, 0, 2]]))
        assert permitted.tolist() == wanted
