import torch
from torch import nn

ROWS, WIDTH, INNER = 4096, 2048, 6144


class Model(nn.Module):
    """Two products of one input, of which one opens and shuts the other."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.value = nn.Parameter((torch.randn(width, inner) / width**0.5).bfloat16())
        self.gate = nn.Parameter((torch.randn(width, inner) / width**0.5).bfloat16())

    def forward(self, x):
        return torch.nn.functional.silu(x @ self.gate) * (x @ self.value)


def get_inputs():
    return [torch.randn(ROWS, WIDTH).bfloat16()]


def get_init_inputs():
    return [WIDTH, INNER]
