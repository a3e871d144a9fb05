# expect: wrong
# task: unit
import torch
from torch import nn


class ModelNew(nn.Module):
    """Divides zero by zero where a row is zero."""

    def forward(self, x):
        return x / x.norm(dim=-1, keepdim=True)
