# expect: timed_out | still running|time
"""Loops in Python."""
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.norm = nn.LayerNorm(columns)

    def forward(self, x):
        while True:
            pass
