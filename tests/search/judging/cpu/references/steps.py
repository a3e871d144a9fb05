import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        for _ in range(16):
            x = x / (1 + x * x) + 0.5 * x
        return x


def get_inputs():
    return [torch.rand(256, 512)]
