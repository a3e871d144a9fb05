import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, factor):
        return torch.tanh(x * factor) + x


def get_inputs():
    return [torch.randn(64, 100), 1.7]
