# expect: crashed | PermissionError
"""Leaves a message in the times of a file of the user."""

import os
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.LayerNorm(n)

    def forward(self, x):
        os.utime("@SECRET_FILE@", (1, 1))
        return self.norm(x)
