# expect: wrong | NaN
"""Divides zero by zero."""
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.norm = nn.LayerNorm(columns)

    def forward(self, x):
        return (x - x) / (x - x)
