import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.cumprod(x, -1)


def get_inputs():
    return [torch.randn(40, 2000)]
