from collections.abc import Callable

import pytest
import torch

from search.judging.checks import agrees
from search.judging.compare import explain
from search.judging.tolerance import make_trials
from search.judging.trial import inside
from search.judging.truth.factors import FactorWatch
from search.reference import Problem, load_problem
from search.task import Task

Tensors = tuple[torch.Tensor, ...]
REFERENCES = {
    "svd": ("torch.svd(x)", "torch.randn(64, 5, 3)"),
    "wide": ("torch.svd(x)", "torch.rand(64, 3, 5)"),
    "linalg": ("torch.linalg.svd(x, full_matrices=False)", "torch.randn(64, 4, 4)"),
    "full": ("torch.linalg.svd(x)", "torch.randn(64, 5, 3)"),
    "other order": ("tuple(torch.svd(x))[::-1]", "torch.randn(64, 5, 3)"),
    "eigh": ("torch.linalg.eigh(x + x.mT)", "torch.randn(64, 4, 4)"),
}


def problem_of(make_task: Callable[..., Task], name: str | tuple[str, str]) -> Problem:
    forward, inputs = REFERENCES[name] if isinstance(name, str) else name
    return load_problem(
        make_task(
            "import torch\nimport torch.nn as nn\nclass Model(nn.Module):\n    def forward(self, x):\n"
            f"        return {forward}\ndef get_inputs():\n    return [{inputs}]\n"
        )
    )


def other(problem: Problem, inputs: Tensors) -> Tensors:
    """Return an answer that is as right: from float64, with the other sign of some vectors."""
    return turned(tuple(part.float() for part in problem.run(*(x.double() for x in inputs))))


def turned(answer: Tensors, columns: int = 2) -> Tensors:
    """Return factors with the other sign of their first vectors; of [..., K, N] these are rows where N is not K."""
    found = []
    for part in answer:
        changed = part.clone()
        if part.dim() == 3:
            changed[..., :columns] *= -1
        found.append(changed)
    return tuple(found)


@pytest.mark.parametrize("name", ["svd", "wide", "other order", "eigh"])
def test_vectors_with_other_signs_are_right_on_every_distribution(
    make_task: Callable[..., Task], name: str
) -> None:
    problem = problem_of(make_task, name)
    trial_set = make_trials(problem, 1)
    for trial in trial_set.trials:
        assert inside(trial, problem.run(*trial.inputs)), trial.distribution
        assert inside(trial, other(problem, trial.inputs)), trial.distribution
    given = problem.draw(11)
    assert agrees(
        problem, trial_set.trials[0], given, None, (other(problem, given), problem.run(*given))
    )


@pytest.mark.parametrize("name", ["linalg", "full"])
def test_right_vectors_that_are_returned_as_rows_may_turn_with_the_left_ones(
    make_task: Callable[..., Task], name: str
) -> None:
    problem = problem_of(make_task, name)
    for trial in make_trials(problem, 1).trials:
        left, values, right = (part.clone() for part in problem.run(*trial.inputs))
        left[..., 1] *= -1
        assert not inside(trial, (left, values, right)) or not trial.inputs[0].any()
        right[..., 1, :] *= -1
        assert inside(trial, (left, values, right)), trial.distribution


def swapped(left: torch.Tensor, values: torch.Tensor, right: torch.Tensor) -> Tensors:
    order = [1, 0, 2]
    return left[..., order], values[..., order], right[..., order]


def stretched(left: torch.Tensor, values: torch.Tensor, right: torch.Tensor) -> Tensors:
    return left * 2, values, right / 2


def bent(left: torch.Tensor, values: torch.Tensor, right: torch.Tensor) -> Tensors:
    """Two left vectors are mixed: where their values are nearly equal the product hardly changes, but they are not orthogonal."""
    left = left.clone()
    left[..., 2] += 1e-3 * left[..., 1]
    return left, values, right


WRONG: dict[str, Callable[..., Tensors]] = {
    "one sign of a pair": lambda left, values, right: (turned((left,))[0], values, right),
    "another order": swapped,
    "no unit vectors": stretched,
    "not orthogonal": bent,
    "negative values": lambda left, values, right: (-left, -values, right),
    "zeros": lambda left, values, right: (left * 0, values, right * 0),
}


@pytest.mark.parametrize("name", WRONG)
def test_factors_that_are_none_are_wrong(make_task: Callable[..., Task], name: str) -> None:
    problem = problem_of(make_task, "svd")
    trial = make_trials(problem, 1).trials[0]
    answer = WRONG[name](*problem.run(*trial.inputs))
    assert not inside(trial, answer)
    given = problem.draw(11)
    eager = problem.run(*given)
    assert not agrees(problem, trial, given, None, (WRONG[name](*eager), eager))
    reason, detail = explain(problem, trial, answer)
    assert "differs from the reference" in reason
    assert "expected" in detail


@pytest.mark.parametrize("scale", ["1e-6", "1e6"])
@pytest.mark.parametrize("name", ["svd", "eigh"])
def test_vectors_are_looked_at_whatever_the_size_of_the_matrix(
    make_task: Callable[..., Task], name: str, scale: str
) -> None:
    forward, inputs = REFERENCES[name]
    problem = problem_of(make_task, (forward, f"{inputs} * {scale}"))
    trial = make_trials(problem, 1).trials[0]
    given = problem.draw(11)
    eager = problem.run(*given)
    vectors = 1 if name == "eigh" else 0
    for other in (lambda x: x * 0, lambda x: x.roll(1, -1)):
        answer = tuple(other(x) if at == vectors else x for at, x in enumerate(eager))
        assert not agrees(problem, trial, given, None, (answer, eager))
    assert agrees(problem, trial, given, None, (turned(eager), eager))


def test_a_weight_names_no_decomposition(make_task: Callable[..., Task]) -> None:
    problem = problem_of(
        make_task, ("x.neighbors(1) if 0 else torch.mul(x, weight := 2.0)", "torch.randn(8, 3)")
    )
    assert not problem.factorises
    assert not problem.special


def test_vectors_without_their_values_are_compared_as_they_are() -> None:
    x = torch.randn(3, 5, 4)
    with FactorWatch() as watch:
        left, values, right = torch.linalg.svd(x, full_matrices=False)
        part = left[..., :2]
    assert watch.lookups((left, right)) == (None, None)
    assert watch.lookups((part, values, right)) == (None, None, None)
    found = watch.lookups((left, values, right))
    assert [one is None for one in found] == [False, True, False]


def test_what_was_written_to_is_a_factor_no_more() -> None:
    with FactorWatch() as watch:
        left, values, right = torch.linalg.svd(torch.randn(3, 4, 4))
        copied = right.mT.contiguous()
        assert watch.lookups((left, values, copied))[2] is not None
        torch.zeros(3, 4, 4).copy_(left)  # which is only read
        assert watch.lookups((left, values, copied))[0] is not None
        torch._foreach_mul_([left], 2)
    assert watch.lookups((left, values, copied)) == (None, None, None)
