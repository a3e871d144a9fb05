from collections.abc import Callable

import torch

from search.judging.cpu.draws import RoundDraws
from search.judging.inputs import SPIKED
from search.judging.tolerance import make_trials
from search.reference import load_problem
from search.task import Task

REFERENCE = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Linear(8, 8)
    def forward(self, x):
        return self.scale(x).relu()

def get_inputs():
    return [torch.randn(16, 8)]
"""


def draws(make_task: Callable[..., Task], **settings: str) -> RoundDraws:
    problem = load_problem(make_task(REFERENCE, **settings))
    return RoundDraws(problem, make_trials(problem))


def test_rounds_have_the_tasks_own_inputs_from_fresh_seeds(make_task) -> None:
    made = draws(make_task)
    one, other = made.draw(audit=False), made.draw(audit=False)
    assert one.trial.distribution == other.trial.distribution == "task"
    assert not torch.equal(one.inputs[0], other.inputs[0])


def test_of_three_audits_two_are_spiked_and_none_has_the_tasks_inputs(make_task) -> None:
    made = draws(make_task)
    for _ in range(4):
        names = [made.draw(audit=True).trial.distribution for _ in range(3)]
        assert sum(name in SPIKED for name in names) >= 2
        assert "task" not in names


def test_parameters_change_only_where_weights_may_not_be_packed(make_task) -> None:
    assert draws(make_task).draw(audit=False).state is None
    changed = draws(make_task, packing="forbidden").draw(audit=False).state
    assert changed is not None
    assert set(changed) == {"scale.weight", "scale.bias"}
