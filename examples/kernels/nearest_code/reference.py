import torch
import torch.nn as nn


class Model(nn.Module):
    """Squared distance of each vector to the nearest of a codebook."""

    def forward(self, x, codes):
        return (x.unsqueeze(1) - codes.unsqueeze(0)).square().sum(-1).min(1).values


def get_inputs():
    return [torch.randn(1020, 32), torch.randn(512, 32)]


def get_init_inputs():
    return []
