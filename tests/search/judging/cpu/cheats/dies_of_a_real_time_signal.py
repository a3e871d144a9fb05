# expect: crashed | signal 40
"""Ends by a signal that has no name."""

import os

from torch import nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.LayerNorm(n)

    def forward(self, x):
        os.kill(os.getpid(), 40)
        return self.norm(x)
