import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x @ x.T


def get_inputs():
    return [torch.rand(96, 210)]
