import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.exp(-x * x) * torch.sigmoid(x) + x


def get_inputs():
    return [torch.randn(70, 129)]
