import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, y):
        return x > y


def get_inputs():
    return [torch.randn(128, 256), torch.randn(128, 256)]


def get_init_inputs():
    return []
