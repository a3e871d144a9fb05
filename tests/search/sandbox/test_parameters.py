import torch
from torch import nn

from search.sandbox.parameters import construct


class Packs(nn.Module):
    """Packs in its constructor what its parameters hold there."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 4)
        self.norm = nn.BatchNorm1d(4)
        self.inner = nn.Sequential(nn.Conv1d(2, 2, 3), nn.LayerNorm(5))
        self.gain = nn.Parameter(torch.ones(4))
        self.packed = self.linear.weight.detach().t().contiguous()
        self.scale = (self.norm.weight / (self.norm.running_var + 1e-5).sqrt()).detach()
        self.copies = [value.detach().clone() for value in self.state_dict().values()]


def state_of(model: nn.Module) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(9)
    return {
        name: torch.rand(value.shape, generator=generator) if value.is_floating_point() else value
        for name, value in model.state_dict().items()
    }


def test_a_constructor_sees_the_judges_parameters() -> None:
    state = state_of(Packs())
    model = construct(Packs, state, 0)
    assert torch.equal(model.packed, state["linear.weight"].t())
    assert torch.equal(
        model.scale, state["norm.weight"] / (state["norm.running_var"] + 1e-5).sqrt()
    )
    for copy, value in zip(model.copies, state.values(), strict=True):
        assert torch.equal(copy, value)


def test_what_is_not_the_judges_is_left_as_it_is_made() -> None:
    model = construct(lambda: nn.Linear(3, 4), {"weight": torch.zeros(7)}, 5)
    assert model.weight.shape == (4, 3)
    assert model.bias.shape == (4,)


def test_what_is_no_module_is_made_once() -> None:
    made: list[int] = []

    def build() -> object:
        made.append(1)
        return object()

    construct(build, {}, 0)
    assert made == [1]


def test_modules_register_and_initialise_as_before_afterwards() -> None:
    construct(Packs, state_of(Packs()), 0)
    torch.manual_seed(1)
    one = nn.Linear(8, 8).weight.clone()
    torch.manual_seed(1)
    assert torch.equal(nn.Linear(8, 8).weight, one)
    assert float(one.detach().std()) > 0.05
    assert torch.equal(nn.LayerNorm(4).weight, torch.ones(4))


def test_shared_and_replaced_parameters_do_not_shift_the_others() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(3, 3)
            self.second = nn.Linear(3, 3)
            self.second.weight = self.first.weight
            self.last = nn.Linear(3, 2)
            self.seen = self.last.weight.detach().clone()

    state = state_of(Tied())
    state["second.weight"] = state["first.weight"]
    assert torch.equal(construct(Tied, state, 0).seen, state["last.weight"])
