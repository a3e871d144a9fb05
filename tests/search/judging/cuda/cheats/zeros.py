# expect: wrong | zero
"""Returns zeros."""
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.norm = nn.LayerNorm(columns)

    def forward(self, x):
        return torch.zeros_like(x)
