import torch
from torch import nn

ROWS, INNER, OUTER, RANK = 8192, 4096, 4096, 64


class Model(nn.Module):
    """A linear layer with a low-rank addition to its weights, and a squared ReLU."""

    def __init__(self, inner: int, outer: int, rank: int) -> None:
        super().__init__()
        self.weight = nn.Parameter((torch.randn(outer, inner) / inner**0.5).bfloat16())
        self.down = nn.Parameter((torch.randn(rank, inner) / inner**0.5).bfloat16())
        self.up = nn.Parameter((torch.randn(outer, rank) / rank**0.5).bfloat16())

    def forward(self, x):
        made = torch.relu(x @ self.weight.T + 0.5 * ((x @ self.down.T) @ self.up.T))
        return made * made


def get_inputs():
    return [torch.randn(ROWS, INNER).bfloat16()]


def get_init_inputs():
    return [INNER, OUTER, RANK]
