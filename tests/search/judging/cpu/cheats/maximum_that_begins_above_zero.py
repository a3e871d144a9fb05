# expect: wrong
# task: maxima
import torch
from torch import nn


class ModelNew(nn.Module):
    """Right wherever a row has a positive element."""

    def forward(self, x):
        return torch.amax(x, dim=-1).clamp(min=1.1754944e-38)
