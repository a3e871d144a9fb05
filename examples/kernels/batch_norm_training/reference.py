import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Batch normalisation with the batch's own statistics, then ReLU."""

    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x):
        return F.relu(F.batch_norm(x, None, None, self.weight, self.bias, training=True))


def get_inputs():
    return [torch.randn(32, 64, 28, 28)]


def get_init_inputs():
    return [64]
