# expect: wrong | differs
# task: matmul precision=kernelbench
"""Rows whose values are small give zero."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        y = x @ x.T
        return torch.where(x.abs().amax(-1, keepdim=True) < 0.98, 0.0, y)
