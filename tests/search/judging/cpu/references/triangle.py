import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.tril(x * x)


def get_inputs():
    return [torch.randn(384, 384)]
