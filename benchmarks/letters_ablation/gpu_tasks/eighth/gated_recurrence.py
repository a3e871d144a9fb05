import torch
from torch import nn

STEPS, BATCH, WIDTH = 32, 1000, 1024


class Model(nn.Module):
    """A recurrent layer with one gate: all its states, each a product of the last one, over a sequence of inputs."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.enter = nn.Parameter((torch.randn(width, 2 * width) / width**0.5).bfloat16())
        self.repeat = nn.Parameter((torch.randn(width, 2 * width) * 0.7 / width**0.5).bfloat16())
        self.bias = nn.Parameter(torch.randn(2 * width).bfloat16())

    def forward(self, x):
        entered = x @ self.enter + self.bias
        state, states = torch.zeros_like(x[0]), []
        for step in entered:
            gate, fresh = (step + state @ self.repeat).float().chunk(2, dim=-1)
            state = torch.lerp(state.float(), torch.tanh(fresh), torch.sigmoid(gate)).to(x.dtype)
            states.append(state)
        return torch.stack(states)


def get_inputs():
    return [torch.randn(STEPS, BATCH, WIDTH).bfloat16()]


def get_init_inputs():
    return [WIDTH]
