import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Steps of Jacobi's iteration for Poisson's equation on a grid with a border of zeros."""

    def __init__(self, steps):
        super().__init__()
        self.steps = steps

    def forward(self, u, source):
        for _ in range(self.steps):
            p = F.pad(u, (1, 1, 1, 1))
            around = p[:, :-2, 1:-1] + p[:, 2:, 1:-1] + p[:, 1:-1, :-2] + p[:, 1:-1, 2:]
            u = 0.25 * (around - source)
        return u


def get_inputs():
    return [torch.randn(1, 1024, 1024), torch.randn(1, 1024, 1024)]


def get_init_inputs():
    return [8]
