import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.exp(x) * torch.sigmoid(x)


def get_inputs():
    return [torch.rand(256, 512)]
