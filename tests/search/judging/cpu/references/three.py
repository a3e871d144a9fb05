import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.sigmoid(x) * 2 - x


def get_inputs():
    return [torch.randn(3)]
