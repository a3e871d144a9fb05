import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return (x * x + 1).transpose(0, 1)


def get_inputs():
    return [torch.randn(70, 90)]
