import torch
from torch import nn

GROUPS, ROWS, WIDTH, INNER = 8, 2048, 1024, 2048


class Model(nn.Module):
    """A linear map and a SiLU for each group of rows, with a gain for each of the group's columns."""

    def __init__(self, groups: int, width: int, inner: int) -> None:
        super().__init__()
        self.weight = nn.Parameter((torch.randn(groups, width, inner) / width**0.5).bfloat16())
        self.bias = nn.Parameter(torch.randn(groups, 1, inner).bfloat16())
        self.gain = nn.Parameter(torch.rand(groups, 1, inner).bfloat16())

    def forward(self, x):
        return torch.nn.functional.silu(torch.bmm(x, self.weight) + self.bias) * self.gain


def get_inputs():
    return [torch.randn(GROUPS, ROWS, WIDTH).bfloat16()]


def get_init_inputs():
    return [GROUPS, WIDTH, INNER]
