from collections.abc import Callable
from typing import Any

import pytest
import torch

from search.judging.cuda.draws import Draws
from search.reference import Problem, load_problem
from search.judging.tolerance import make_trials
from search.task import Task, TaskFile

FLOATING = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, -1)
def get_inputs():
    return [torch.rand(64, 64)]
"""
WHOLE = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(1000, 16)
    def forward(self, places):
        return self.table(places)
def get_inputs():
    return [torch.randint(1000, (64,))]
"""


@pytest.fixture
def load(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Problem]:
    def made(source: str) -> Problem:
        path = tmp_path_factory.mktemp("task") / "reference.py"
        path.write_text(source)
        settings = TaskFile(reference=path.name)
        return load_problem(
            Task(name="x", path=path, reference=path, source=source, settings=settings)
        )

    return made


def test_the_same_inputs_are_made_again_and_no_two_calls_share_any(
    load: Callable[[str], Problem],
) -> None:
    problem = load(FLOATING)
    draws = Draws(problem, make_trials(problem))
    given = draws.draw(20, audits=True)
    values = [draws.make(one)[0] for one in given]
    assert all(torch.equal(a, draws.make(one)[0]) for a, one in zip(values, given, strict=True))
    assert len({float(value.sum()) for value in values}) == 20
    assert len({one.seed for one in given}) == 20


def test_about_one_call_in_ten_is_of_another_distribution(
    load: Callable[[str], Problem],
) -> None:
    problem = load(FLOATING)
    draws = Draws(problem, make_trials(problem))
    given = [one for _ in range(60) for one in draws.draw(50, audits=True)]
    audited = [one for one in given if one.audit]
    assert 200 <= len(audited) <= 400
    names = {one.trial.distribution for one in audited}
    assert {"spiked", "spiked far", "normal", "huge"} <= names
    assert not any(one.audit for one in draws.draw(200, audits=False))
    for one in audited:
        values = draws.make(one)[0]
        assert bool(((values < 0) | (values > 1)).any()) or one.trial.distribution in {"task", "sparse", "spiked"}


def test_where_memory_is_scarce_calls_are_made_from_one_draw_and_differ(
    load: Callable[[str], Problem],
) -> None:
    problem = load(FLOATING)
    draws = Draws(problem, make_trials(problem))
    draws.keep_one()
    given = draws.draw(20, audits=False)
    assert all(one.base is problem.inputs for one in given)
    assert len({float(draws.make(one)[0].double().sum()) for one in given}) == 20
    whole = load(WHOLE)
    draws = Draws(whole, make_trials(whole))
    draws.keep_one()  # there no scale would make them new
    assert all(one.base is not whole.inputs for one in draws.draw(20, audits=False))


def test_whole_numbers_are_drawn_afresh_for_every_call(load: Callable[[str], Problem]) -> None:
    problem = load(WHOLE)
    draws = Draws(problem, make_trials(problem))
    values = [draws.make(one)[0] for one in draws.draw(16, audits=False)]
    assert len({tuple(value.tolist()) for value in values}) == 16


def test_draws_that_take_long_are_made_anew_as_time_allows(
    load: Callable[[str], Problem],
) -> None:
    problem = load(WHOLE)
    now = [0.0]
    draw = problem.draw

    def slow(seed: int) -> tuple[Any, ...]:
        now[0] += 0.1
        return draw(seed)

    object.__setattr__(problem, "draw", slow)
    draws = Draws(problem, make_trials(problem), clock=lambda: now[0])
    first = draws.draw(4, audits=False)[0].base
    assert draws.draw(4, audits=False)[0].base is first
    now[0] += 60.0
    assert draws.draw(4, audits=False)[0].base is not first
