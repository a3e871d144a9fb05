import torch
import torch.nn as nn


class Model(nn.Module):
    """Linear layer of int8 weights with a scale an output channel, for four rows."""

    def forward(self, x, weight, scale):
        return x @ (weight.to(x.dtype) * scale.unsqueeze(1)).T


def get_inputs():
    weight = torch.randint(-127, 128, (2048, 2048), dtype=torch.int8)
    return [torch.randn(4, 2048), weight, torch.rand(2048) / 100]


def get_init_inputs():
    return []
