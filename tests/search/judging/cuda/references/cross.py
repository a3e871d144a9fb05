# small: ROWS=40 WIDTH=64
import torch
from torch import nn

ROWS, WIDTH = 4096, 1024


class Model(nn.Module):
    """In two bytes: a layer that multiplies its input with a linear map of the normalised input, and adds it."""

    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(width).bfloat16() + 0.5)
        self.weight = nn.Parameter((torch.randn(width, width) / width**0.5).bfloat16())
        self.bias = nn.Parameter(torch.randn(width).bfloat16())

    def forward(self, x):
        wide = x.float()
        normal = wide * torch.rsqrt((wide * wide).mean(-1, keepdim=True) + 1e-5) * self.scale.float()
        return x * (normal.to(x.dtype) @ self.weight.T + self.bias) + x


def get_inputs():
    return [torch.randn(ROWS, WIDTH).bfloat16()]


def get_init_inputs():
    return [WIDTH]
