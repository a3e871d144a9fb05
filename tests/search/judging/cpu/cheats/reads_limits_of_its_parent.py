# expect: crashed | PermissionError
"""Asks for the limits of the process that it was forked from."""

import os
import resource

from torch import nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.LayerNorm(n)

    def forward(self, x):
        resource.prlimit(os.getppid(), resource.RLIMIT_CPU)
        return self.norm(x)
