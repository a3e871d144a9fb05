import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.exp(4 * x)


def get_inputs():
    return [torch.randn(64, 512)]
