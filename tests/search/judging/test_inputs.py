from collections.abc import Callable

import pytest
import torch

from search.judging.inputs import DISTRIBUTIONS, draw, input_notes, scaled, spiked
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
def test_one_element_in_a_thousand_is_of_another_distribution(far: bool) -> None:
    base = torch.rand(100, 100)
    values = spiked(base, generator("cpu", 1), far=far)
    changed = values != base
    assert 5 <= int(changed.sum()) <= 10
    assert bool(((values[changed] < 0) | (values[changed] > 1)).any())
    assert bool((values[changed].abs() > 100).any()) is far


@pytest.mark.parametrize("far", [False, True])
def test_places_of_spikes_in_a_large_tensor_are_different_ones_and_the_same_again(
    far: bool,
) -> None:
    base = torch.rand(1000, 1000)
    values = spiked(base, generator("cpu", 3), far=far)
    changed = values != base
    assert 980 <= int(changed.sum()) <= 1000
    # Every part of it has some, and of each kind.
    assert int((changed.view(20, -1).sum(1) > 0).sum()) == 20
    outliers = values[changed].abs()
    assert int((outliers > 2000).sum()) > 300 if far else int((outliers < 0.01).sum()) > 300
    assert torch.equal(values, spiked(base, generator("cpu", 3), far=far))


def test_a_small_tensor_has_a_spike_of_each_kind() -> None:
    base = torch.rand(16)
    assert int((spiked(base, generator("cpu", 2), far=False) != base).sum()) == 3


def test_inputs_that_are_the_same_in_every_draw_are_named(make_task: Callable[..., Task]) -> None:
    problem = load_problem(make_task(COUNTABLE))
    notes = input_notes(problem, problem.draw(1), problem.draw(2))
    assert len(notes) == 2
    assert notes[0].startswith("input 1 is the same in every draw")
    assert "packing: tables" in notes[1]
    one = problem.draw(1)
    assert not any("every draw" in note for note in input_notes(problem, one, one))


def test_other_parameters_are_never_larger_and_whole_numbers_stay() -> None:
    state = {"weight": torch.randn(50, 50), "count": torch.arange(3)}
    other = scaled(state)
    assert bool((other["weight"].abs() <= state["weight"].abs()).all())
    assert bool((other["weight"] != state["weight"]).float().mean() > 0.99)
    assert torch.equal(other["count"], state["count"])
