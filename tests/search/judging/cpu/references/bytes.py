"""A product of two quantised matrices, then one with the input."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("a", torch.randint(-8, 8, (384, 384), dtype=torch.int8))
        self.register_buffer("b", torch.randint(-8, 8, (384, 384), dtype=torch.int8))
        self.scale = nn.Parameter(torch.rand(384) / 384)

    def forward(self, x):
        return (x @ (self.a.to(x.dtype) @ self.b.to(x.dtype))) * self.scale


def get_inputs():
    return [torch.randn(8, 384)]


def get_init_inputs():
    return []
