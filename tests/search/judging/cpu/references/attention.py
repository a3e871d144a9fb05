import torch
from torch import nn


class Model(nn.Module):
    def forward(self, q, k, v):
        return torch.softmax(q @ k.transpose(-1, -2) / 32**0.5, -1) @ v


def get_inputs():
    return [torch.randn(72, 32), torch.randn(90, 32), torch.randn(90, 32)]
