from collections.abc import Callable

import pytest
import torch

from search.judging.inputs import DISTRIBUTIONS, draw, input_notes, scaled, scaled_apart, spiked
from search.judging.tolerance import make_trials
from search.reference import load_problem
from search.seeds import generator
from search.task import Task

SOURCE = """
import torch
class Model(torch.nn.Module):
    def forward(self, x, places):
        return x[places]
def get_inputs():
    return [torch.rand(100, 100), torch.arange(7)]
"""
COUNTABLE = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(10, 4)
    def forward(self, places, order):
        return self.table(places)[order]
def get_inputs():
    return [torch.randint(10, (64,)), torch.arange(64)]
"""


@pytest.mark.parametrize("name", list(DISTRIBUTIONS))
def test_a_distribution_keeps_shapes_and_whole_numbers(
    make_task: Callable[..., Task], name: str
) -> None:
    problem = load_problem(make_task(SOURCE))
    values, places = draw(problem, name, 11)
    assert values.shape == (100, 100)
    assert torch.equal(places, torch.arange(7))
    assert torch.equal(values, draw(problem, name, 11)[0])
    assert not torch.equal(values, draw(problem, name, 12)[0])


@pytest.mark.parametrize("far", [False, True])
def test_some_elements_are_of_another_distribution(far: bool) -> None:
    base = torch.rand(100, 100)
    values = spiked(base, generator("cpu", 1), far=far)
    changed = values != base
    assert 2 <= int(changed.sum()) <= 10
    assert bool(((values[changed] < 0) | (values[changed] > 1)).any())
    assert bool((values[changed].abs() > 100).any()) is far


@pytest.mark.parametrize("far", [False, True])
def test_places_of_spikes_in_a_large_tensor_are_different_ones_and_the_same_again(
    far: bool,
) -> None:
    base = torch.rand(1000, 1000)
    drawn = {seed: spiked(base, generator("cpu", seed), far=far) for seed in range(20)}
    counts = {seed: int((values != base).sum()) for seed, values in drawn.items()}
    # A look at a fiftieth of it meets none in some draws, and hundreds in others.
    assert min(counts.values()) < 20
    assert 300 < max(counts.values()) <= 1000
    most = max(counts, key=lambda seed: counts[seed])
    values = drawn[most]
    changed = values != base
    # Every part of it has some, and of each kind.
    assert int((changed.view(20, -1).sum(1) > 0).sum()) == 20
    outliers = values[changed].abs()
    many = counts[most] // 4
    assert int((outliers > 2000).sum() if far else (outliers < 0.01).sum()) > many
    assert torch.equal(values, spiked(base, generator("cpu", most), far=far))


def test_a_small_tensor_has_a_spike_of_each_kind() -> None:
    base = torch.rand(16)
    assert int((spiked(base, generator("cpu", 2), far=False) != base).sum()) == 3


def test_inputs_that_are_the_same_in_every_draw_are_named(make_task: Callable[..., Task]) -> None:
    problem = load_problem(make_task(COUNTABLE))
    notes = input_notes(problem, problem.draw(2))
    assert len(notes) == 2
    assert notes[0].startswith("input 1 is the same in every draw")
    assert "packing: tables" in notes[1]


def test_a_reference_that_takes_nothing_below_zero_is_asked_on_absolute_values(
    make_task: Callable[..., Task],
) -> None:
    source = (
        "import torch\nclass Model(torch.nn.Module):\n    def forward(self, p):\n        return p * torch.log(p)\n"
        "def get_inputs():\n    return [torch.rand(40, 40) * 0.5 + 0.5]\n"
    )
    trials = make_trials(load_problem(make_task(source)), 3).trials
    asked = {trial.distribution: trial.inputs[0] for trial in trials}
    assert {"normal, positive", "spiked, positive"} <= set(asked)
    assert all(bool((values > 0).all()) for values in asked.values())
    # Far spikes may all be positive by themselves.
    far = asked.get("spiked far", asked.get("spiked far, positive"))
    assert 2 <= int(((far < 0.5) | (far > 1)).sum()) <= 5, "the others are the task's own"


def test_what_a_forward_leaves_in_its_buffers_is_named(make_task: Callable[..., Task]) -> None:
    source = (
        "import torch\nclass Model(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.register_buffer('seen', torch.zeros(4))\n        self.register_buffer('kept', torch.ones(4))\n"
        "    def forward(self, x):\n        self.seen.copy_(x.sum(0))\n        return x * self.kept\n"
        "def get_inputs():\n    return [torch.randn(3, 4)]\n"
    )
    problem = load_problem(make_task(source))
    assert problem.writes == ("seen",)
    (note,) = input_notes(problem, problem.draw(2))
    assert note == "forward changes its buffer seen: what it leaves there is not compared"


def test_bytes_change_places_for_they_may_be_weights() -> None:
    state = {"weight": torch.randint(-8, 8, (30, 30), dtype=torch.int8)}
    others = [scaled(state)["weight"] for _ in range(40)]
    moved = [one for one in others if not torch.equal(one, state["weight"])]
    assert 5 < len(moved) < 35, "else they are a mask as it was"
    other = moved[0]
    assert (other.dtype, other.shape) == (torch.int8, (30, 30))
    assert torch.equal(other.flatten().sort()[0], state["weight"].flatten().sort()[0])


def test_other_parameters_are_never_larger_and_whole_numbers_stay() -> None:
    state = {"weight": torch.randn(50, 50), "count": torch.arange(3)}
    other = scaled(state)
    assert bool((other["weight"].abs() <= state["weight"].abs()).all())
    assert bool((other["weight"] != state["weight"]).float().mean() > 0.99)
    assert torch.equal(other["count"], state["count"])


def test_inputs_that_are_scaled_apart_are_the_same_in_the_place_that_is_given() -> None:
    base = (torch.randn(7, 5), 3, torch.randn(4, 6).t(), torch.arange(9))
    new = scaled_apart(base, 11, 0.8)
    places = tuple(torch.empty_like(x) if isinstance(x, torch.Tensor) else x for x in base)
    there = scaled_apart(base, 11, 0.8, places)
    assert torch.equal(new[0], there[0])
    assert torch.equal(new[2], there[2])
    assert there[1:4:2] == base[1:4:2]  # what is no floating-point number is left as it is
    assert [a is b for a, b in zip(there, places, strict=True)] == [True, True, True, False]
    other = scaled_apart(base, 11, 0.8, (torch.empty(5, 7).t(), 3, torch.empty(6, 4), None))
    assert torch.equal(other[0], new[0])  # laid out otherwise, it would get other numbers


KEPT = """
import torch
KEPT = torch.randn(64, 64)
class Model(torch.nn.Module):
    def forward(self, a, b):
        return a @ b
def get_inputs():
    return [KEPT, torch.randn(64, 64)]
"""


def test_a_tensor_that_the_program_keeps_has_no_spikes_afterwards(
    make_task: Callable[..., Task],
) -> None:
    problem = load_problem(make_task(KEPT))
    before = problem.inputs[0].clone()
    first, again = (draw(problem, "spiked far", 5) for _ in range(2))
    assert torch.equal(problem.inputs[0], before)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0], before)
