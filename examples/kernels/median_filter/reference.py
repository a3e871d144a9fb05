import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Median of each pixel's neighbourhood of three by three."""

    def forward(self, x):
        p = F.pad(x, (1, 1, 1, 1), mode="replicate")
        return p.unfold(2, 3, 1).unfold(3, 3, 1).flatten(-2).median(-1).values


def get_inputs():
    return [torch.randn(1, 4, 256, 256)]


def get_init_inputs():
    return []
