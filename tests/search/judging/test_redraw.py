"""Trials that are drawn again: by the same judge from their seeds, and by the next one from what was measured."""

import weakref
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from search.judging import bounds
from search.judging.bounds import finite
from search.judging.checks import surely_right
from search.judging.disputed import is_right
from search.judging.inputs import SPECIAL
from search.judging.tolerance import draw_again, make_trials
from search.judging.trial import TrialSet, inside
from search.judging.truth.reference import Truth
from search.reference import Problem, load_problem
from search.task import Task

HEAD = "import torch\n\n\nclass Model(torch.nn.Module):\n"
SOFTMAX = "torch.softmax(x @ x.T, -1)", "torch.randn(48, 200)"


def problem_of(make_task: Callable[..., Task], forward: str, inputs: str) -> Problem:
    source = (
        f"{HEAD}    def forward(self, x):\n        return {forward}\n\n\n"
        f"def get_inputs():\n    return [{inputs}]\n"
    )
    return load_problem(make_task(source))


def measured(problem: Problem) -> TrialSet:
    found = make_trials(problem, 1).measured()
    assert found is not None
    return found


def test_the_next_judge_draws_other_inputs_of_the_same_distributions(
    make_task: Callable[..., Task],
) -> None:
    problem = problem_of(make_task, *SOFTMAX)
    first = make_trials(problem, 1)
    known = first.measured()
    assert known is not None
    second = draw_again(problem, known)
    assert [x.distribution for x in second.trials] == [x.distribution for x in first.trials]
    for one, other in zip(first.trials, second.trials, strict=True):
        assert not torch.equal(one.inputs[0], other.inputs[0])
        assert torch.equal(other.inputs[0], other.recall().inputs[0])
        right = problem.run(*other.inputs)
        assert inside(other, right), other.distribution
        # With a large mean, or few that are far off, scores are 2e8: which of them is the greatest, rounding decides.
        if "mean" not in other.distribution and other.distribution != "spiked far":
            assert not inside(other, (right[0] * 1.01,)), other.distribution


def test_an_answer_as_near_as_rounding_takes_no_truth(
    make_task: Callable[..., Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = problem_of(make_task, *SOFTMAX)
    second = draw_again(problem, measured(problem))
    asked: list[int] = []
    call = Truth.__call__

    def watched(self: Truth, *args: object, **options: object) -> object:
        asked.append(1)
        return call(self, *args, **options)  # type: ignore[arg-type] # what it was given

    monkeypatch.setattr(Truth, "__call__", watched)
    for trial in second.trials:
        eager = problem.run(*trial.inputs)
        assert surely_right(problem, trial, (eager[0] * (1 + 2.0**-23),), eager)
        assert not surely_right(problem, trial, (eager[0] * 1.001,), eager)
        assert not surely_right(problem, trial, (torch.full_like(eager[0], torch.nan),), eager)
    assert not asked
    second.trials[0].recall()
    assert asked


@pytest.mark.parametrize("precision", ["strict", "tf32", "half", "kernelbench"])
def test_what_is_surely_right_is_within_its_bounds(
    make_task: Callable[..., Task], precision: str
) -> None:
    source = (
        f"{HEAD}    def forward(self, x):\n        return torch.cumsum(torch.tanh(x @ x.T), -1)\n\n\n"
        "def get_inputs():\n    return [torch.randn(64, 96)]\n"
    )
    problem = load_problem(make_task(source, precision=precision))
    generator = torch.Generator().manual_seed(4)
    sure = 0
    for trial in make_trials(problem, 1).trials:
        eager = problem.run(*trial.inputs)
        absolute, relative = trial.slack[0].told or (0.0, 0.0)
        most = eager[0].abs() * max(trial.slack[0].relative, relative) + absolute
        for share in (0.1, 0.3, 0.49, 0.51, 1.0, 3.0):
            moved = eager[0] + share * most * torch.empty_like(eager[0]).uniform_(
                -1, 1, generator=generator
            )
            if surely_right(problem, trial, (moved,), eager):
                sure += 1
                assert inside(trial, (moved,)), (trial.distribution, share)
    assert sure >= 2 * len(make_trials(problem, 1).trials)


def test_infinities_and_indices_are_compared_in_full(make_task: Callable[..., Task]) -> None:
    problem = problem_of(make_task, "torch.topk(x, 3)", "torch.randn(16, 50)")
    trials = make_trials(problem, 1)
    assert trials.measured() is None
    eager = problem.run(*trials.trials[0].inputs)
    assert not surely_right(problem, trials.trials[0], eager, eager)
    plain = problem_of(make_task, *SOFTMAX)
    trial = replace(make_trials(plain, 1).trials[0], distribution=SPECIAL)
    eager = plain.run(*trial.inputs)
    assert not surely_right(plain, trial, eager, eager)


def test_a_reference_that_is_asked_on_the_host_first_is_measured_anew(
    make_task: Callable[..., Task],
) -> None:
    forward = "torch.linalg.cholesky(x @ x.mT + 100 * torch.eye(8))"
    assert make_trials(problem_of(make_task, forward, "torch.rand(3, 8, 8)"), 1).measured() is None


def test_bounds_that_do_not_fit_are_found_in_pieces(
    make_task: Callable[..., Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "_ROWS", 1 << 12)
    problem = problem_of(make_task, "torch.tanh(x)", "torch.randn(128, 256)")
    known = make_trials(problem, 1, room=0).measured()
    assert known is not None
    assert known.cut is not None
    second = draw_again(problem, known)

    def short(*_: object) -> None:
        raise torch.OutOfMemoryError

    monkeypatch.setattr("search.judging.tolerance._bounded", short)
    trial = second.trials[1]
    right = problem.run(*trial.inputs)
    assert inside(trial, right)
    assert not inside(trial, (right[0] * 1.001,))


def test_a_second_look_at_some_rows_is_at_their_own_inputs(
    make_task: Callable[..., Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "_ROWS", 1 << 12)
    problem = problem_of(make_task, "torch.softmax(x, 1)", "torch.randn(128, 256)")
    trial_set = make_trials(problem, 1, room=0)
    trial = trial_set.trials[0]
    assert trial.cut is not None
    assert trial.part is not None
    rows = trial.cut.rows[1]
    part = trial.part(rows)
    assert part is not None
    assert torch.equal(part.inputs[0], trial.inputs[0][rows])
    (answer,) = problem.run(*part.inputs)
    uncut = replace(trial_set, cut=None)
    assert is_right(problem, uncut, part, (answer,))
    answer[0, 0] *= 1.5
    assert not is_right(problem, uncut, part, (answer,))


def test_inputs_that_no_seed_repeats_are_measured_anew(make_task: Callable[..., Task]) -> None:
    task = make_task(
        f"import numpy\n{HEAD}    def forward(self, x):\n        return x * 2 + 1\n\n\n"
        "def get_inputs():\n    return [torch.from_numpy(numpy.random.rand(16, 64)).float()]\n"
    )
    assert make_trials(load_problem(task), 1).measured() is None


def test_a_draw_that_the_reference_does_not_take_tells_nothing(
    make_task: Callable[..., Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = problem_of(make_task, *SOFTMAX)
    second = draw_again(problem, measured(problem))
    monkeypatch.setattr("search.judging.tolerance._bounded", lambda *_: "not finite")
    assert inside(second.trials[0], (torch.full((48, 48), 7.0),))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (torch.tensor([1.0, -3e38]), True),
        (torch.tensor([1.0, torch.nan, 2.0]), False),
        (torch.tensor([1.0, -torch.inf]), False),
        (torch.tensor([1e39, 0.0], dtype=torch.float64), False),
        (torch.tensor([6e4, -1.0], dtype=torch.float16), True),
        (torch.tensor(torch.nan), False),
        (torch.tensor([2**62]), True),
        (torch.empty(0), True),
    ],
)
def test_what_is_finite_as_float32(value: torch.Tensor, expected: bool) -> None:
    assert finite((torch.ones(3), value)) is expected


@pytest.mark.parametrize("columns", [63, 64, 70])
def test_of_many_errors_one_in_so_many_says_the_same_by_size(
    monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    generator = torch.Generator().manual_seed(1)
    exact = torch.randn(4000, columns, dtype=torch.float64, generator=generator)
    errors = (exact.abs() * torch.rand(exact.shape, generator=generator) * 1e-7).float()
    errors[:, :-1] *= 0.01  # one column is less exact than all others
    whole = bounds._by_size(exact, errors)
    monkeypatch.setattr(bounds, "_COUNTED", 1 << 15)
    some = bounds._by_size(exact, errors)
    sizes = slice(120, 129)  # exponents that thousands of elements have
    assert bool((some[sizes] <= whole[sizes]).all())
    assert bool((some[sizes] >= 0.5 * whole[sizes]).all())


def test_inputs_that_are_handed_over_are_let_go_and_come_again(
    make_task: Callable[..., Task],
) -> None:
    problem = problem_of(make_task, *SOFTMAX)
    trial_set = make_trials(problem, 1, room=0)  # every trial is drawn again when it is asked for
    chosen = trial_set.trials[:2]
    seen, copies = [], []
    for values in trial_set.given(chosen, forgets=True):
        seen.append(weakref.ref(values[0]))
        copies.append(values[0].clone())
        del values
    assert [one() for one in seen] == [None, None]
    assert all(torch.equal(a, t.inputs[0]) for a, t in zip(copies, chosen, strict=True))
    kept = [weakref.ref(values[0]) for values in trial_set.given(chosen[1:], forgets=False)]
    assert kept[0]() is not None
