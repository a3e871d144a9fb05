import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Gated feed-forward layer of a transformer for a batch of eight tokens."""

    def __init__(self, width, inner):
        super().__init__()
        self.gate = nn.Linear(width, inner, bias=False)
        self.up = nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


def get_inputs():
    return [torch.randn(8, 512)]


def get_init_inputs():
    return [512, 1376]
