# expect: crashed | PermissionError
"""Leaves a message beside a file of the user."""

import os
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.LayerNorm(n)

    def forward(self, x):
        os.setxattr("@SECRET_FILE@", "user.note", b"1")
        return self.norm(x)
